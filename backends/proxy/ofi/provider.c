/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider.c - chooses a provider of libfabric, and tries what it promises
 *
 * Providers do not keep all promises, so a probe writes 8 bytes and sends a message, from an
 * endpoint to itself. Atomics are never requested: with them, providers give up their order. Three
 * providers are never chosen: sockets is deprecated and takes milliseconds for a write; shm stays
 * within a host; udp;ofi_rxd is slow.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "ofi.h"

#define ORDER (FI_ORDER_SAS | FI_ORDER_SAW | FI_ORDER_WAW)
#define TRY_SECONDS 5

struct ofiProvider {
	const char *name;
	int isRun;	 /* libgin has run on it; 0: only GIN_OFI_PROVIDER chooses it */
	int usesAddress; /* of a network interface; 0: it finds a NIC by itself */
};

/* The preferred ones first. */
static const struct ofiProvider providers[] = {
	{"net", 1, 1}, {"tcp", 1, 1}, {"tcp;ofi_rxm", 1, 1}, {"verbs;ofi_rxm", 0, 1},
	{"efa", 0, 0}, {"cxi", 0, 0}, {"psm3", 0, 0},	     {"opx", 0, 0},
};

#define PROVIDERS (sizeof(providers) / sizeof(providers[0]))

static struct fi_info *hintsFor(const struct ofiProvider *provider, const char *domain,
				uint64_t order)
{
	struct fi_info *hints = fi_allocinfo();

	if (!hints)
		return NULL;
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG | FI_SEND | FI_RECV | FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ |
		      FI_REMOTE_WRITE;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	if (!provider->isRun)
		hints->domain_attr->mr_mode |= FI_MR_LOCAL | FI_MR_ENDPOINT;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	hints->tx_attr->msg_order = hints->rx_attr->msg_order = order;
	hints->fabric_attr->prov_name = strdup(provider->name);
	if (*domain)
		hints->domain_attr->name = strdup(domain);
	return hints;
}

static int getInfo(const struct ofiProvider *provider, const struct fabricWanted *want,
		   uint64_t order, struct fi_info **info)
{
	/* An interface without an address is a NIC. */
	const char *domain = *want->address ? "" : want->interface;
	const char *node = provider->usesAddress && *want->address ? want->address : NULL;
	struct fi_info *hints = hintsFor(provider, domain, order);
	int error = -FI_ENOMEM;

	if (hints)
		error = fi_getinfo(FI_VERSION(1, 15), node, node ? "0" : NULL, node ? FI_SOURCE : 0,
				   hints, info);
	fi_freeinfo(hints);
	/* Some providers ignore the domain's name. */
	if (!error && *domain && strcmp((*info)->domain_attr->name, domain)) {
		fi_freeinfo(*info);
		*info = NULL;
		error = -FI_ENODATA;
	}
	return error;
}

/* An ordered fabric if the provider has one. NULL, and *error. */
static struct fi_info *infoOf(const struct ofiProvider *provider, const struct fabricWanted *want,
			      int *error)
{
	struct fi_info *info = NULL;

	*error = getInfo(provider, want, ORDER, &info);
	if (*error)
		*error = getInfo(provider, want, 0, &info);
	return *error ? NULL : info;
}

static int isWanted(const struct ofiProvider *provider, const struct fabricWanted *want)
{
	return *want->provider ? !strcmp(want->provider, provider->name) : provider->isRun;
}

struct fi_info *ofiInfo(const struct fabricWanted *want, char *why)
{
	struct fi_info *info = NULL;
	int error = -FI_ENODATA, isKnown = 0;

	for (size_t i = 0; i < PROVIDERS && !info; i++)
		if (isWanted(&providers[i], want)) {
			info = infoOf(&providers[i], want, &error);
			isKnown = 1;
		}
	if (info)
		return info;
	if (isKnown)
		snprintf(why, FABRIC_WHY, "%.16s%s%.46s has no %.16s of libfabric: %.40s",
			 want->interface, *want->address ? ", " : "", want->address,
			 *want->provider ? want->provider : "net or tcp", fi_strerror(-error));
	else
		snprintf(why, FABRIC_WHY,
			 "GIN_OFI_PROVIDER=%.20s: must be one of net, tcp, tcp;ofi_rxm, "
			 "verbs;ofi_rxm, efa, cxi, psm3, opx",
			 want->provider);
	return NULL;
}

/* FNV-1a. */
static uint64_t hashOf(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3ull;
	return hash;
}

/* Of a network interface, in Mb/s; 0: not known. */
static uint32_t speedOf(const char *interface)
{
	char path[64];
	long speed = 0;

	snprintf(path, sizeof(path), "/sys/class/net/%.16s/speed", interface);
	FILE *file = fopen(path, "re");
	if (!file)
		return 0;
	if (fscanf(file, "%ld", &speed) != 1)
		speed = 0;
	fclose(file);
	return speed > 0 && speed < UINT32_MAX ? (uint32_t)speed : 0;
}

static int isOrdered(const struct fi_info *info)
{
	return (info->tx_attr->msg_order & ORDER) == ORDER &&
	       info->ep_attr->max_order_waw_size != 0;
}

int ofiMayShareAcks(const struct fi_info *info)
{
	const char *name = info->fabric_attr->prov_name;

	return isOrdered(info) &&
	       (!strcmp(name, "net") || !strcmp(name, "tcp") || !strcmp(name, "tcp;ofi_rxm"));
}

static void describe(const struct fi_info *info, const struct fabricWanted *want,
		     struct fabricAbout *about)
{
	const char *provider = info->fabric_attr->prov_name;
	const struct fid_nic *nic = info->nic;

	snprintf(about->name, sizeof(about->name), "libfabric %.21s", provider);
	snprintf(about->provider, sizeof(about->provider), "%.15s", provider);
	snprintf(about->interface, sizeof(about->interface), "%.15s",
		 *want->address ? want->interface : info->domain_attr->name);
	about->speed = nic && nic->link_attr && nic->link_attr->speed
			       ? (uint32_t)(nic->link_attr->speed / 1000000)
			       : speedOf(about->interface);
	about->kind = hashOf(about->name);
	about->mostBytes = info->ep_attr->max_msg_size;
	about->ordered = isOrdered(info);
	about->hasStrangers = 1;
}

/* Waits for the write and the message. */
static int await(struct fabricEnd *end, const uint64_t *sent, char *why)
{
	uint64_t deadline = clockNow() + TRY_SECONDS * SECOND;
	struct fabricEvent event;
	int written = 0, received = 0;

	while (!written || !received) {
		int count = ginFabric.poll(end, &event, 1);
		if (count &&
		    (event.kind == fabricLost || (event.kind == fabricDone && event.error)))
			return ofiFail(why, "its first transfer", -FI_EIO);
		if (count && event.kind == fabricDone)
			written = 1;
		else if (count && event.kind == fabricMessage)
			received = event.bytes == sizeof(*sent) &&
				   !memcmp(event.message, sent, sizeof(*sent));
		if (clockNow() > deadline)
			return ofiFail(why, "its first transfer", -FI_ETIMEDOUT);
	}
	return fabricOk;
}

/* There may be no room at first: the first transfer to a peer has to connect. */
static int untilRoom(struct fabricEnd *end, int (*begin)(struct fabricEnd *end, void *arg),
		     void *arg)
{
	uint64_t deadline = clockNow() + TRY_SECONDS * SECOND;
	struct fabricEvent event;
	int result;

	while ((result = begin(end, arg)) == fabricBusy && clockNow() < deadline)
		ginFabric.poll(end, &event, 1);
	return result;
}

struct ofiTrial {
	uint64_t sent, landed;
	uint64_t peer;
	struct fabricPiece piece;
};

static int tryWrite(struct fabricEnd *end, void *arg)
{
	struct ofiTrial *t = arg;

	return ginFabric.write(end, t->peer, &t->piece, NULL, t);
}

/* Until then the write can have no event, which untilRoom() would drop. */
static int tryBatch(struct fabricEnd *end, void *arg)
{
	(void)arg;
	return ofiGiveBatch(end);
}

static int trySend(struct fabricEnd *end, void *arg)
{
	struct ofiTrial *t = arg;

	return ginFabric.send(end, t->peer, &t->sent, sizeof(t->sent));
}

static int exchange(struct fabricEnd *end, struct ofiTrial *t, char *why)
{
	if (untilRoom(end, tryWrite, t) || untilRoom(end, tryBatch, NULL))
		return ofiFail(why, "its first write", -FI_ENOSYS);
	if (untilRoom(end, trySend, t))
		return ofiFail(why, "its first message", -FI_ENOSYS);
	if (await(end, &t->sent, why))
		return fabricFailed;
	return t->landed == t->sent ? fabricOk : ofiFail(why, "its first write", -FI_EIO);
}

static int tryMemory(struct fabric *f, struct fabricEnd *end, struct ofiTrial *t, char *why)
{
	struct fabricRegion *region;
	struct fabricKey key;

	if (ginFabric.memoryAdd(f, &t->landed, sizeof(t->landed), &region, &key, why))
		return fabricFailed;
	t->piece = (struct fabricPiece){(char *)&t->sent, sizeof(t->sent), key, 0};
	int result = exchange(end, t, why);
	ginFabric.memoryRemove(region);
	return result;
}

static int tryEnd(struct fabric *f, char *why)
{
	struct ofiTrial trial = {.sent = 0x6c696267696e2121};
	unsigned char address[FABRIC_ADDRESS];
	struct fabricEnd *end;

	if (ginFabric.endOpen(f, &end, address, why))
		return fabricFailed;
	int result = ginFabric.connect(end, address, &trial.peer, why);
	if (!result)
		result = tryMemory(f, end, &trial, why);
	ginFabric.endClose(end);
	return result;
}

static int tryProvider(const struct fabricWanted *want, char *why)
{
	struct fabric *f;

	if (ginFabric.open(want, &f, why))
		return fabricFailed;
	int result = tryEnd(f, why);
	ginFabric.close(f);
	return result;
}

static int probeOne(const struct fabricWanted *want, struct fabricAbout *about, char *why)
{
	struct fi_info *info = ofiInfo(want, why);
	char reason[FABRIC_WHY];

	if (!info)
		return fabricFailed;
	describe(info, want, about);
	fi_freeinfo(info);
	int result = tryProvider(want, reason);
	if (result)
		snprintf(why, FABRIC_WHY, "%s: %.120s", about->name, reason);
	return result;
}

int ofiProbe(const struct fabricWanted *want, struct fabricAbout *about, char *why)
{
	struct fi_info *any;

	if (*want->provider)
		return probeOne(want, about, why);
	any = ofiInfo(want, why);
	for (size_t i = 0; i < PROVIDERS && any; i++) {
		struct fabricWanted one = *want;
		one.provider = providers[i].name;
		if (providers[i].isRun && !probeOne(&one, about, why)) {
			fi_freeinfo(any);
			return fabricOk;
		}
	}
	fi_freeinfo(any);
	return fabricFailed;
}
