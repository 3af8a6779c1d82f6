/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_ofi.c - completion entries, as the proxy's network by libfabric takes them from a completion
 * queue
 *
 * A provider of this file completes the operations, in the order, with the status, length, flags
 * and data that the input says. An input is a list of steps: writes, reads and messages begin,
 * entries are written, the endpoint is polled. Each transfer has one event, with its context; a
 * message comes from the buffer of its receive; no buffer and no operation is lost.
 */
/* HEADERS: libfabric */
/* COMPILE: -O1 */
#include "fuzz.h"

#include "backends/proxy/ofi/ofi.c"
#include "backends/proxy/ofi/writes.c"

#define BEGUN (OFI_OPS + OFI_RECEIVES)
#define ENTRIES 512
#define SPARE 70

static struct fabric fabric;
static struct fi_info info;
static struct fi_fabric_attr fabricAttr = {.prov_name = "fuzz"};
static struct fid_domain domain;
static struct fabricEnd *end;
static struct ofiOp *begunOps[BEGUN]; /* of the provider */
static int begunCount;
static struct {
	struct fi_cq_data_entry entry;
	int error;
} queue[ENTRIES];
static int queued;
static int isProviderFull; /* the provider takes nothing */
static uint64_t begunTransfers, doneTransfers, messages, immediates;
static uint8_t isUnderWay[1 << 16]; /* transfers, by context */

/* The functions of libfabric and of other files that the included file calls. */

struct fi_info *ofiInfo(const struct fabricWanted *want, char *why)
{
	(void)want, (void)why;
	return NULL;
}

int ofiProbe(const struct fabricWanted *want, struct fabricAbout *about, char *why)
{
	(void)want, (void)about, (void)why;
	return fabricFailed;
}

int ofiMemoryAdd(struct fabric *f, void *at, size_t bytes, struct fabricRegion **out,
		 struct fabricKey *key, char *why)
{
	(void)f, (void)at, (void)bytes, (void)out, (void)key, (void)why;
	return fabricFailed;
}

void ofiMemoryRemove(struct fabricRegion *region)
{
	(void)region;
}

int ofiMemoryOfEnd(struct fabricEnd *of, char *why)
{
	(void)of, (void)why;
	return fabricOk;
}

int ofiDescribe(struct fabricEnd *of, const struct fabricPiece *piece, struct ofiOp *op,
		void **descriptor)
{
	(void)of, (void)piece, (void)op;
	*descriptor = NULL;
	return 0;
}

const char *fi_strerror(int error)
{
	(void)error;
	return "an error";
}

void fi_freeinfo(struct fi_info *of)
{
	(void)of;
}

int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **out, void *context)
{
	(void)attr, (void)out, (void)context;
	return -FI_ENOSYS;
}

/* The provider. */

static ssize_t take(void *context)
{
	if (isProviderFull || begunCount == BEGUN)
		return -FI_EAGAIN;
	begunOps[begunCount++] = context;
	return 0;
}

static ssize_t providerRecv(struct fid_ep *ep, void *at, size_t bytes, void *descriptor,
			    fi_addr_t from, void *context)
{
	(void)ep, (void)descriptor, (void)from;
	EXPECT(bytes == FABRIC_MESSAGE && at == ((struct ofiOp *)context)->message);
	return take(context);
}

static ssize_t providerSend(struct fid_ep *ep, const void *at, size_t bytes, void *descriptor,
			    fi_addr_t to, void *context)
{
	(void)ep, (void)descriptor, (void)to;
	EXPECT(bytes <= FABRIC_MESSAGE && at == ((struct ofiOp *)context)->message);
	return take(context);
}

static ssize_t providerRead(struct fid_ep *ep, void *at, size_t bytes, void *descriptor,
			    fi_addr_t from, uint64_t address, uint64_t key, void *context)
{
	(void)ep, (void)at, (void)bytes, (void)descriptor, (void)from, (void)address, (void)key;
	return take(context);
}

static ssize_t providerWrite(struct fid_ep *ep, const struct fi_msg_rma *message, uint64_t flags)
{
	(void)ep, (void)flags;
	return take(message->context);
}

static ssize_t providerCqRead(struct fid_cq *cq, void *out, size_t most)
{
	struct fi_cq_data_entry *entry = out;
	ssize_t got = 0;

	(void)cq;
	for (; (size_t)got < most && got < queued && !queue[got].error; got++)
		entry[got] = queue[got].entry;
	if (!got)
		return queued ? -FI_EAVAIL : -FI_EAGAIN;
	memmove(queue, queue + got, (size_t)(queued - got) * sizeof(queue[0]));
	queued -= (int)got;
	return got;
}

static ssize_t providerReadErr(struct fid_cq *cq, struct fi_cq_err_entry *out, uint64_t flags)
{
	(void)cq, (void)flags;
	if (!queued || !queue[0].error)
		return -FI_EAGAIN;
	*out = (struct fi_cq_err_entry){.op_context = queue[0].entry.op_context,
					.flags = queue[0].entry.flags,
					.len = queue[0].entry.len,
					.err = queue[0].error -
					       1}; /* 0: a provider that forgets it */
	memmove(queue, queue + 1, (size_t)--queued * sizeof(queue[0]));
	return 1;
}

static int providerClose(struct fid *fid)
{
	(void)fid;
	return 0;
}

static int providerBind(struct fid *fid, struct fid *other, uint64_t flags)
{
	(void)fid, (void)other, (void)flags;
	return 0;
}

static int providerControl(struct fid *fid, int command, void *argument)
{
	(void)fid, (void)argument;
	return command == FI_ENABLE ? 0 : -FI_ENOSYS;
}

static int providerName(fid_t fid, void *address, size_t *bytes)
{
	(void)fid;
	memset(address, 1, *bytes);
	return 0;
}

static struct fi_ops fidOps = {
	.close = providerClose, .bind = providerBind, .control = providerControl};
static struct fi_ops_cq cqOps = {.read = providerCqRead, .readerr = providerReadErr};
static struct fi_ops_cm cmOps = {.getname = providerName};
static struct fi_ops_msg msgOps = {.recv = providerRecv, .send = providerSend};
static struct fi_ops_rma rmaOps = {.read = providerRead, .writemsg = providerWrite};
static struct fid_cq cq = {.fid = {.ops = &fidOps}, .ops = &cqOps};
static struct fid_av av = {.fid = {.ops = &fidOps}};
static struct fid_ep ep = {.fid = {.ops = &fidOps}, .cm = &cmOps, .msg = &msgOps, .rma = &rmaOps};

static int cqOpen(struct fid_domain *of, struct fi_cq_attr *attr, struct fid_cq **out,
		  void *context)
{
	(void)of, (void)attr, (void)context;
	*out = &cq;
	return 0;
}

static int avOpen(struct fid_domain *of, struct fi_av_attr *attr, struct fid_av **out,
		  void *context)
{
	(void)of, (void)attr, (void)context;
	*out = &av;
	return 0;
}

static int epOpen(struct fid_domain *of, struct fi_info *from, struct fid_ep **out, void *context)
{
	(void)of, (void)from, (void)context;
	*out = &ep;
	return 0;
}

static struct fi_ops_domain domainOps = {.av_open = avOpen, .cq_open = cqOpen, .endpoint = epOpen};

/* The endpoint is made once: its operations and receives are a quarter of a megabyte. */
static void openEnd(void)
{
	char why[FABRIC_WHY], address[FABRIC_ADDRESS];

	info.fabric_attr = &fabricAttr;
	domain.ops = &domainOps;
	fabric.info = &info;
	fabric.domain = &domain;
	if (!end)
		EXPECT(ofiEndOpen(&fabric, &end, address, why) == fabricOk);
	begunTransfers = doneTransfers = messages = immediates = 0;
	EXPECT(!queued && !isProviderFull);
}

/* A completion of something that was begun, or a message that comes with its data alone. */
static void addEntry(struct fuzzInput *in)
{
	uint8_t how = fuzzByte(in), which = fuzzByte(in), error = fuzzByte(in);
	struct fi_cq_data_entry entry = {.flags = fuzzByte(in)};

	if (queued == ENTRIES || (!(how & 1) && !begunCount))
		return;
	entry.len = how & 64 ? fuzzWord(in) : fuzzByte(in);
	entry.data = fuzzWord(in);
	if (how & 1) { /* libfabric writes no context of a receive that is still posted */
		entry.flags |= FI_REMOTE_CQ_DATA;
		immediates++;
	} else {
		size_t at = which & 128 ? which % (size_t)begunCount : begunCount - 1 - which % 16u;
		if (at >= (size_t)begunCount)
			return;
		entry.op_context = begunOps[at];
		if (begunOps[at]->kind == ofiReceive)
			memset(begunOps[at]->message, which, sizeof(begunOps[at]->message));
		begunOps[at] = begunOps[--begunCount];
	}
	queue[queued].entry = entry;
	queue[queued++].error = how & 2 && !(how & 1) ? 1 + error % 64 : 0;
}

static void begin(struct fuzzInput *in)
{
	uint8_t what = fuzzByte(in);
	static char memory[FABRIC_MESSAGE];
	struct fabricPiece piece = {
		.local = memory, .bytes = what % 64u, .isCovered = what >> 2 & 1};
	uint64_t context = 1 + begunTransfers % (sizeof(isUnderWay) - 1);
	int result;

	if (what & 1)
		result = ofiWrite(end, what, &piece, NULL, (void *)(uintptr_t)context);
	else if (what & 2)
		result = ofiRead(end, what, &piece, (void *)(uintptr_t)context);
	else
		result = ofiSendMessage(end, what, memory, what % FABRIC_MESSAGE);
	EXPECT(result == fabricOk || result == fabricBusy);
	if (result != fabricOk || !(what & 3))
		return;
	EXPECT(!isUnderWay[context]);
	isUnderWay[context] = 1;
	begunTransfers++;
}

static void checkEvent(const struct fabricEvent *event)
{
	switch (event->kind) {
	case fabricDone:
		EXPECT((uintptr_t)event->context < sizeof(isUnderWay));
		EXPECT(isUnderWay[(uintptr_t)event->context]);
		isUnderWay[(uintptr_t)event->context] = 0;
		doneTransfers++;
		break;
	case fabricMessage:
		for (int i = 1; i < FABRIC_MESSAGE; i++)
			EXPECT(event->message[i] == event->message[0]);
		break;
	case fabricImmediate:
		EXPECT(immediates-- > 0);
		break;
	default:
		EXPECT(event->kind == fabricLost && event->peer <= UINT8_MAX);
	}
}

static void pollEnd(int most)
{
	static struct fabricEvent events[SPARE + 1];

	memset(&events[most], 0x5a, sizeof(events[0]));
	int count = ofiPoll(end, events, most);
	EXPECT(count >= 0 && count <= most);
	for (int i = 0; i < count; i++)
		checkEvent(&events[i]);
	for (size_t i = 0; i < sizeof(events[0]); i++)
		EXPECT(((const unsigned char *)&events[most])[i] == 0x5a);
}

static void step(struct fuzzInput *in)
{
	uint8_t what = fuzzByte(in);

	switch (what % 8) {
	case 0:
	case 1:
		begin(in);
		break;
	case 2:
		isProviderFull = what >> 3 & 1;
		break;
	case 3:
	case 4:
	case 5:
		addEntry(in);
		break;
	default:
		pollEnd(1 + (what >> 3) * 3 % SPARE);
	}
}

/* All operations end, and the endpoint has all its operations and receives again. */
static void drain(void)
{
	int receives = 0, ops = 0;

	isProviderFull = 0;
	do {
		for (int i = begunCount - 1; i >= 0 && queued < ENTRIES; i--) {
			if (begunOps[i]->kind == ofiReceive)
				continue;
			queue[queued].entry = (struct fi_cq_data_entry){.op_context = begunOps[i]};
			queue[queued++].error = 0;
			begunOps[i] = begunOps[--begunCount];
		}
		pollEnd(SPARE);
	} while (queued);
	pollEnd(SPARE);
	for (int i = 0; i < begunCount; i++)
		receives += begunOps[i]->kind == ofiReceive;
	for (const struct ofiOp *op = end->freeOps; op; op = op->next)
		ops++;
	EXPECT(!immediates && doneTransfers == begunTransfers);
	EXPECT(receives == OFI_RECEIVES && ops == OFI_OPS && begunCount == OFI_RECEIVES);
}

static void fuzzOne(struct fuzzInput *in)
{
	openEnd();
	for (int steps = 0; in->left && steps < 400; steps++)
		step(in);
	drain();
}
