/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi_provider.h - a provider of libfabric for the endpoints of libgin-ofi.so, whose sources it
 * includes: it takes operations, and completes those that the test puts into `queue`
 */
#ifndef GIN_TEST_OFI_PROVIDER_H
#define GIN_TEST_OFI_PROVIDER_H

#include "backends/proxy/ofi/ofi.c"
#include "backends/proxy/ofi/writes.c"

#define BEGUN (OFI_OPS + OFI_RECEIVES)
#define ENTRIES 512

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
static int isProviderFull;					   /* the provider takes nothing */
static ssize_t (*providerTakes)(const struct fi_msg_rma *message); /* a write; NULL: take() */

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
	ssize_t refused = providerTakes ? providerTakes(message) : 0;
	return refused ? refused : take(message->context);
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
static void openProvider(void)
{
	char why[FABRIC_WHY], address[FABRIC_ADDRESS];

	info.fabric_attr = &fabricAttr;
	domain.ops = &domainOps;
	fabric.info = &info;
	fabric.domain = &domain;
	if (!end)
		EXPECT(ofiEndOpen(&fabric, &end, address, why) == fabricOk);
}

#endif
