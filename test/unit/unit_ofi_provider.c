/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_ofi_provider.c - the probe of a provider of libfabric: it looks at each byte that it has
 * written or sent, and reports speed and order; another NIC than the wanted one is none
 *
 * The provider, an interface and the calls of fabric.h are of this file.
 */
/* HEADERS: libfabric */
#include "expect.h"

#define NAME "enp193s0f0np1"

static FILE *openSpeed(const char *path, const char *mode)
{
	EXPECT_TEXT(path, "/sys/class/net/" NAME "/speed");
	return fmemopen((void *)(uintptr_t) "25000\n", 6, mode);
}

#define fopen openSpeed
#include "backends/proxy/ofi/provider.c"

struct whole {
	struct fi_info info;
	struct fi_ep_attr ep;
	struct fi_domain_attr domain;
	struct fi_fabric_attr fabric;
	struct fi_tx_attr tx;
	struct fi_rx_attr rx;
};

struct fi_info *fi_dupinfo(const struct fi_info *unused)
{
	struct whole *w = calloc(1, sizeof(*w));

	(void)unused;
	EXPECT(w != NULL);
	w->info.ep_attr = &w->ep;
	w->info.domain_attr = &w->domain;
	w->info.fabric_attr = &w->fabric;
	w->info.tx_attr = &w->tx;
	w->info.rx_attr = &w->rx;
	return &w->info;
}

void fi_freeinfo(struct fi_info *info)
{
	if (!info)
		return;
	free(info->fabric_attr->prov_name);
	free(info->domain_attr->name);
	free(info);
}

static size_t mostInOrder; /* bytes of writes */
static struct fid_nic *nic;

int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
	       const struct fi_info *hints, struct fi_info **info)
{
	(void)version, (void)node, (void)service, (void)flags;
	*info = fi_dupinfo(NULL);
	(*info)->fabric_attr->prov_name = strdup(hints->fabric_attr->prov_name);
	(*info)->domain_attr->name = strdup(NAME);
	(*info)->tx_attr->msg_order = hints->tx_attr->msg_order;
	(*info)->ep_attr->max_order_waw_size = mostInOrder;
	(*info)->nic = nic;
	return 0;
}

const char *fi_strerror(int error)
{
	return error == FI_EIO ? "wrong bytes" : "an error";
}

int ofiFail(char *why, const char *call, int error)
{
	snprintf(why, FABRIC_WHY, "%s: %s", call, fi_strerror(-error));
	return fabricFailed;
}

int ofiGiveBatch(struct fabricEnd *end)
{
	(void)end;
	return fabricOk;
}

/* The calls of fabric.h. */

static uint32_t lacking;   /* the byte of a write that does not arrive */
static uint32_t wrong = 8; /* the byte of a message that arrives wrong; 8: none */
static struct fabricEvent events[2];
static int count;

static int anyOpen(const struct fabricWanted *want, struct fabric **out, char *why)
{
	(void)want, (void)out, (void)why;
	count = 0;
	return fabricOk;
}

static void anyClose(struct fabric *f)
{
	(void)f;
}

static int anyEnd(struct fabric *f, struct fabricEnd **out, void *address, char *why)
{
	(void)f, (void)out, (void)address, (void)why;
	return fabricOk;
}

static void anyEndClose(struct fabricEnd *end)
{
	(void)end;
}

static int anyConnect(struct fabricEnd *end, const void *address, uint64_t *peer, char *why)
{
	(void)end, (void)address, (void)peer, (void)why;
	return fabricOk;
}

static int anyAdd(struct fabric *f, void *at, size_t bytes, struct fabricRegion **out,
		  struct fabricKey *key, char *why)
{
	(void)f, (void)bytes, (void)out, (void)why;
	*key = (struct fabricKey){(uintptr_t)at, 0};
	return fabricOk;
}

static void anyRemove(struct fabricRegion *region)
{
	(void)region;
}

static int anyWrite(struct fabricEnd *end, uint64_t peer, const struct fabricPiece *piece,
		    const uint32_t *immediate, void *context)
{
	char *to = (char *)(uintptr_t)piece->remote.address;

	(void)end, (void)peer, (void)immediate;
	for (uint32_t i = 0; i < piece->bytes; i++)
		to[i] = i == lacking ? to[i] : piece->local[i];
	events[count++] = (struct fabricEvent){.kind = fabricDone, .context = context};
	return fabricOk;
}

static int anySend(struct fabricEnd *end, uint64_t peer, const void *message, size_t bytes)
{
	struct fabricEvent *event = &events[count++];

	(void)end, (void)peer;
	*event = (struct fabricEvent){.kind = fabricMessage, .bytes = (uint32_t)bytes};
	memcpy(event->message, message, bytes);
	event->message[wrong] ^= 1;
	return fabricOk;
}

static int anyPoll(struct fabricEnd *end, struct fabricEvent *out, int most)
{
	(void)end, (void)most;
	*out = count ? events[--count] : (struct fabricEvent){.kind = fabricLost};
	return 1;
}

const struct fabricCalls ginFabric = {
	.open = anyOpen,
	.close = anyClose,
	.endOpen = anyEnd,
	.endClose = anyEndClose,
	.connect = anyConnect,
	.memoryAdd = anyAdd,
	.memoryRemove = anyRemove,
	.write = anyWrite,
	.send = anySend,
	.poll = anyPoll,
};

int main(void)
{
	struct fabricWanted want = {.provider = "", .interface = NAME, .address = "::1"};
	struct fi_link_attr link = {.speed = 40000000000};
	struct fid_nic some = {.link_attr = &link};
	struct fabricAbout about;
	char why[FABRIC_WHY];

	for (lacking = 0; lacking < 8; lacking++) {
		EXPECT_EQUAL(ofiProbe(&want, &about, why), fabricFailed);
		EXPECT_HAS(why, "its first write: wrong bytes");
	}
	for (wrong = 0; wrong < 8; wrong++) {
		EXPECT_EQUAL(ofiProbe(&want, &about, why), fabricFailed);
		EXPECT_HAS(why, "its first transfer: wrong bytes");
	}
	EXPECT_EQUAL(ofiProbe(&want, &about, why), fabricOk);
	EXPECT_TEXT(about.provider, "net");
	EXPECT_TEXT(about.interface, NAME);
	EXPECT_EQUAL(about.speed, 25000); /* Mb/s */
	EXPECT(!about.ordered);
	nic = &some;
	mostInOrder = 1;
	EXPECT_EQUAL(ofiProbe(&want, &about, why), fabricOk);
	EXPECT_EQUAL(about.speed, 40000);
	EXPECT(about.ordered);
	want.address = "";
	EXPECT_EQUAL(ofiProbe(&want, &about, why), fabricOk);
	want.interface = "enp193s0f1np1";
	EXPECT_EQUAL(ofiProbe(&want, &about, why), fabricFailed);
	EXPECT_HAS(why, "enp193s0f1np1 has no net or tcp of libfabric");
	return 0;
}
