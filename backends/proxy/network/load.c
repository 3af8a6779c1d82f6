/* SPDX-License-Identifier: BSD-3-Clause */
/* load.c - GIN_TRANSPORT, the plug-in of a network, and its search */
#include "load.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "gpu.h"
#include "lib/base/log.h"
#include "lib/base/plugin.h"

#define VERBS "verbs"

/* A plug-in of the process, which is never unloaded. */
struct networkPlugin {
	char name[NETWORK_NAME_MOST + 1]; /* "": none */
	const struct fabricCalls *calls;
	struct fabricAbout about; /* by the last search that found a network */
};

#define PLUGINS 4

static struct {
	pthread_mutex_t lock;
	struct networkPlugin plugin[PLUGINS];
	char why[BACKEND_WHY];	  /* why the last search found no network; "": it found one */
	char notNic[BACKEND_WHY]; /* why the last search did not choose verbs; "": nothing to say */
	char gpu[FABRIC_WHY];	  /* how the network reaches GPU memory, or why it does not */
} loaded = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* One name of the list: its length. */
static size_t nameAt(const char *list)
{
	return strcspn(list, ",");
}

static int isPlain(const char *name, size_t length)
{
	return length && length <= NETWORK_NAME_MOST &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789") >= length;
}

/* Returns 0 if a second network is named. */
static int addName(struct transportChoice *choice, const char *name, size_t length)
{
	if (length == 3 && !strncmp(name, "ipc", length)) {
		choice->allowsIpc = 1;
		return 1;
	}
	if (choice->name[0])
		return 0;
	snprintf(choice->name, sizeof(choice->name), "%.*s", (int)length, name);
	choice->prefersNetwork = !choice->allowsIpc;
	choice->searches = searchAnyway;
	return 1;
}

int networkChoiceRead(const char *list, struct transportChoice *choice)
{
	*choice = (struct transportChoice){.allowsIpc = 1, .searches = searchMissing, .isOpen = 1};
	if (*list)
		*choice = (struct transportChoice){.searches = searchNever};
	for (size_t length; *list; list += length + (list[length] == ',')) {
		length = nameAt(list);
		if (isPlain(list, length) && addName(choice, list, length))
			continue;
		return 0;
	}
	return 1;
}

/* Returns 0, and why, if GIN_TRANSPORT is wrong. */
static int readChoice(struct transportChoice *choice, char *why)
{
	int isRight = networkChoiceRead(paramText(paramTransport), choice);

	if (!isRight)
		snprintf(why, BACKEND_WHY,
			 "GIN_TRANSPORT: must be ipc, the name of a network, or both with a comma");
	return isRight;
}

/* The slot of the plug-in with this name, or a free slot. NULL: there is none. The lock is held. */
static struct networkPlugin *pluginNamed(const char *name)
{
	for (int i = 0; i < PLUGINS; i++)
		if (!loaded.plugin[i].calls || !strcmp(loaded.plugin[i].name, name))
			return &loaded.plugin[i];
	return NULL;
}

/* Loads the plug-in once. The lock is held. */
static int loadPlugin(const char *name, char *why)
{
	char file[NETWORK_NAME_MOST + 16], reason[FABRIC_WHY];
	const struct plugin plugin = {file, FABRIC_SYMBOL, sizeof(struct fabricCalls)};
	struct networkPlugin *slot = pluginNamed(name);
	const void *calls;

	if (slot && slot->calls)
		return 1;
	snprintf(file, sizeof(file), "libgin-%s.so", strcmp(name, VERBS) ? name : "rdma");
	enum pluginResult result = pluginOpen(&plugin, &calls, reason, sizeof(reason));
	if (result == pluginFound && slot) {
		snprintf(slot->name, sizeof(slot->name), "%s", name);
		slot->calls = calls;
		return 1;
	}
	if (result == pluginMissing)
		snprintf(why, BACKEND_WHY, "there is no %s in %.90s", file, reason);
	else
		snprintf(why, BACKEND_WHY, "%s: %.120s", file, reason);
	return 0;
}

/* Loads the plug-in that GIN_TRANSPORT names: if that fails, the proxy works for no pair. */
static int loadNamed(const struct transportChoice *choice, char *why)
{
	char reason[BACKEND_WHY];

	pthread_mutex_lock(&loaded.lock);
	int found = loadPlugin(choice->name, reason);
	pthread_mutex_unlock(&loaded.lock);
	if (found)
		return 1;
	snprintf(why, BACKEND_WHY, "GIN_TRANSPORT=%s: %.120s", paramText(paramTransport), reason);
	logWrite(logWarn, "the proxy cannot be used: %s", why);
	return 0;
}

int networkProbe(struct proxyBlob *blob, char *why)
{
	unsigned threads = paramNumber(paramProxyThreads);
	struct transportChoice choice;

	why[0] = '\0';
	if (!readChoice(&choice, why))
		return 0;
	blob->lanes = (uint8_t)(threads ? threads : 1);
	blob->allowsIpc = (uint8_t)choice.allowsIpc;
	blob->prefersNetwork = (uint8_t)choice.prefersNetwork;
	blob->searches = (uint8_t)choice.searches;
	return choice.searches != searchAnyway || loadNamed(&choice, why);
}

/* Shortens a sentence about a NIC. */
static int failNic(char *why, const char *reason)
{
	snprintf(why, BACKEND_WHY, "%.*s", BACKEND_WHY - 1, reason);
	return 0;
}

static int wantNic(const struct backendHost *host, struct rdmaRail rail, struct networkWanted *out,
		   char *why)
{
	char reason[RDMA_WHY];
	const struct rdma *rdma = rdmaRailFind(host, rail, &out->nic, reason);

	if (!rdma)
		return failNic(why, reason);
	out->fabric.isRail = rail.count > 1;
	snprintf(out->interface.name, sizeof(out->interface.name), "%.11s:%d",
		 out->nic.found.device, out->nic.found.port);
	out->fabric.nic = &out->nic.wanted;
	out->fabric.path = &out->path;
	return rdmaPathOf(0, &out->path) == ginSuccess || failNic(why, ginGetLastError());
}

int networkWant(const struct backendHost *host, const char *name, struct rdmaRail rail,
		struct networkWanted *out, char *why)
{
	*out = (struct networkWanted){.fabric = {.provider = "",
						 .interface = out->interface.name,
						 .address = out->interface.address,
						 .peers = (uint32_t)host->nRanks}};
	out->fabric.hasGpu =
		host->device && host->device->cuda && paramChoice(paramBounce) != bounceAlways;
	if (!strcmp(name, VERBS))
		return wantNic(host, rail, out, why);
	return networkInterfaceFind(host, &out->interface, why);
}

/* Sets loaded.gpu. The lock is held. */
static int tryGpu(const struct backendHost *host, const struct fabricCalls *calls,
		  const struct fabricWanted *want)
{
	struct fabric *fabric;
	struct networkGpu gpu;
	int reaches;

	if (!networkGpuIsTried(host->device, calls, loaded.gpu) ||
	    calls->open(want, &fabric, loaded.gpu))
		return 0;
	int quiet = errorQuiet(1);
	reaches = !networkGpuOpen(host->device, calls, fabric, &gpu, loaded.gpu);
	errorQuiet(quiet);
	if (reaches)
		snprintf(loaded.gpu, sizeof(loaded.gpu), "%s", gpu.how);
	networkGpuClose(host->device, calls, &gpu);
	calls->close(fabric);
	return reaches;
}

/* The lock is held. */
static int tryNetwork(const struct backendHost *host, const char *name, struct rdmaRail rail,
		      struct fabricAbout *about, uint8_t *reachesGpu, char *why)
{
	struct networkWanted want;

	if (!networkWant(host, name, rail, &want, why) || !loadPlugin(name, why))
		return 0;
	const struct fabricCalls *calls = pluginNamed(name)->calls;
	want.fabric.provider = paramText(paramOfiProvider);
	if (calls->probe(&want.fabric, about, why))
		return 0;
	want.fabric.provider = about->provider;
	*reachesGpu = (uint8_t)tryGpu(host, calls, &want.fabric);
	return 1;
}

/* Does another port work as the first one does? */
static int isAlike(const struct fabricAbout *first, const struct fabricAbout *other)
{
	return first->kind == other->kind && strcmp(first->interface, other->interface);
}

/* Adds the speed of the other rails. The lock is held. */
static int tryRails(const struct backendHost *host, const char *name, uint32_t rails,
		    struct fabricAbout *about, uint8_t *reachesGpu, char *why)
{
	struct fabricAbout other;
	uint8_t reaches;

	if (!tryNetwork(host, name, (struct rdmaRail){0, rails}, about, reachesGpu, why))
		return 0;
	for (uint32_t i = 1; i < rails; i++) {
		if (!tryNetwork(host, name, (struct rdmaRail){i, rails}, &other, &reaches, why) ||
		    !isAlike(about, &other) || reaches != *reachesGpu)
			return 0;
		about->speed += other.speed;
		if (other.mostBytes < about->mostBytes)
			about->mostBytes = other.mostBytes;
	}
	return 1;
}

/* Rails that the user and the lanes allow. */
static uint32_t mostRails(const char *name, const struct proxyBlob *blob)
{
	uint32_t rails = strcmp(name, VERBS) ? 1 : paramNumber(paramNicRails);

	return blob->lanes && blob->lanes < rails ? blob->lanes : rails;
}

static int findNetwork(const struct backendHost *host, const char *name, struct proxyBlob *blob,
		       struct fabricAbout *about, char *why)
{
	uint32_t rails = mostRails(name, blob);
	int found = 0;

	pthread_mutex_lock(&loaded.lock);
	for (; rails && !found; rails--) {
		found = tryRails(host, name, rails, about, &blob->reachesGpu, why);
		blob->rails = (uint8_t)rails;
	}
	if (found)
		pluginNamed(name)->about = *about;
	snprintf(loaded.why, sizeof(loaded.why), "%s", found ? "" : why);
	pthread_mutex_unlock(&loaded.lock);
	return found;
}

static void describeNetwork(struct proxyBlob *blob, const char *name,
			    const struct fabricAbout *about)
{
	blob->hasNetwork = 1;
	blob->pairBytes = about->pairBytes;
	snprintf(blob->plugin, sizeof(blob->plugin), "%s", name);
	blob->networkKind = about->kind;
	blob->networkId = about->id;
	blob->speed = about->speed;
	memcpy(blob->name, about->name, sizeof(blob->name));
	memcpy(blob->interface, about->interface, sizeof(blob->interface));
	if (blob->rails > 1)
		snprintf(blob->interface, sizeof(blob->interface), "%.12s +%u", about->interface,
			 networkRails(blob) - 1);
}

/* GPU memory that the network reaches does not bounce. */
static void describeGpu(const struct backendHost *host, struct proxyBlob *blob)
{
	blob->bounces &= !blob->reachesGpu;
	if (!host->device || !host->device->cuda)
		return;
	pthread_mutex_lock(&loaded.lock);
	logWrite(logInfo, "rank %d: the network %s GPU memory%s%s", host->rank,
		 blob->reachesGpu ? "reaches" : "does not reach", blob->reachesGpu ? " by " : ": ",
		 loaded.gpu);
	pthread_mutex_unlock(&loaded.lock);
}

static int severalHosts(const struct backendHost *host)
{
	for (int r = 1; r < host->nRanks; r++)
		if (!identitySameHost(&host->ranks[r], &host->ranks[0]))
			return 1;
	return 0;
}

/* A number for the sort of network, with which the description of a port begins. */
static uint8_t nicNetworkOf(const struct rdmaFound *found)
{
	uint8_t sum = 1;

	for (const char *c = found->why; *c && *c != ','; c++)
		sum = (uint8_t)(sum * 31 + *c);
	return sum;
}

void networkProbeNic(const struct backendHost *host, struct proxyBlob *blob)
{
	struct transportChoice choice;
	struct rdmaChoice nic;
	char why[RDMA_WHY];

	if (!readChoice(&choice, why) || (strcmp(choice.name, VERBS) && !choice.isOpen))
		return;
	if (choice.isOpen && !severalHosts(host))
		return;
	blob->hasNic = rdmaPortFind(host, 1, &nic, why) != NULL;
	if (blob->hasNic)
		blob->nicNetwork = nicNetworkOf(&nic.found);
	else
		logWrite(logInfo, "rank %d: the proxy has no NIC: %s", host->rank, why);
}

static struct proxyBlob blobOf(const struct backendHost *host, int rank)
{
	struct proxyBlob blob;

	memcpy(&blob, host->blob(host->core, rank, ginRouteProxy), sizeof(blob));
	return blob;
}

/* Have all ranks a NIC of one network? All ranks find one answer; `why` says why not. */
static int allHaveNics(const struct backendHost *host, char *why)
{
	const struct proxyBlob first = blobOf(host, 0);

	for (int r = 0; r < host->nRanks; r++) {
		const struct proxyBlob blob = blobOf(host, r);
		if (blob.hasNic && blob.nicNetwork == first.nicNetwork)
			continue;
		snprintf(why, BACKEND_WHY, "rank %d has %s", r,
			 blob.hasNic ? "a NIC of another kind of network" : "no NIC");
		return 0;
	}
	return 1;
}

/* Without GIN_TRANSPORT. */
static void chooseName(const struct backendHost *host, struct transportChoice *choice)
{
	char why[BACKEND_WHY] = "";
	int isNic = allHaveNics(host, why);

	snprintf(choice->name, sizeof(choice->name), "%s", isNic ? VERBS : "ofi");
	pthread_mutex_lock(&loaded.lock);
	memcpy(loaded.notNic, why, sizeof(loaded.notNic));
	pthread_mutex_unlock(&loaded.lock);
	logWrite(logInfo, "rank %d: the proxy's network is %s%s%s", host->rank, choice->name,
		 isNic ? "" : "; not verbs: ", why);
}

ginResult_t networkSearch(const struct backendHost *host, struct proxyBlob *blob)
{
	struct fabricAbout about = {.name = ""};
	struct transportChoice choice;
	char why[BACKEND_WHY] = "";

	blob->hasSearched = 1;
	if (!readChoice(&choice, why))
		return ginSuccess;
	if (choice.isOpen)
		chooseName(host, &choice);
	if (!choice.name[0])
		return ginSuccess;
	if (findNetwork(host, choice.name, blob, &about, why)) {
		describeNetwork(blob, choice.name, &about);
		describeGpu(host, blob);
		return ginSuccess;
	}
	if (choice.searches == searchAnyway)
		return fail(ginErrorUnsupported, "GIN_TRANSPORT=%s: %s", paramText(paramTransport),
			    why);
	logWrite(logInfo, "rank %d: the proxy has no network: %s", host->rank, why);
	return ginSuccess;
}

static void whyNone(const struct proxyBlob *mine, char *why)
{
	pthread_mutex_lock(&loaded.lock);
	if (mine->searches == searchNever)
		snprintf(why, BACKEND_WHY, "GIN_TRANSPORT=%.40s rules a network out",
			 paramText(paramTransport));
	else
		snprintf(why, BACKEND_WHY, "no network: %.140s",
			 mine->hasSearched ? loaded.why
					   : "it is looked for only where it is needed");
	pthread_mutex_unlock(&loaded.lock);
}

static size_t describeEnd(const struct proxyBlob *blob, char *text, size_t room)
{
	int length = snprintf(text, room, "%.16s", blob->interface);

	if (blob->speed >= 1000)
		length += snprintf(text + length, room - (size_t)length, " (%g Gb/s)",
				   blob->speed / 1000.0);
	else if (blob->speed)
		length += snprintf(text + length, room - (size_t)length, " (%u Mb/s)", blob->speed);
	return (size_t)length;
}

/* The lock is held. */
static void describeGpuOfPair(const struct proxyBlob *mine, const struct proxyBlob *theirs,
			      char *text, size_t room)
{
	text[0] = '\0';
	if (mine->bounces && mine->hasSearched)
		snprintf(text, room, "; GPU memory bounces: %.60s", loaded.gpu);
	else if (mine->bounces || theirs->bounces)
		snprintf(text, room, "; GPU memory bounces");
	else if (mine->reachesGpu)
		snprintf(text, room, "; GPU memory by %.20s", loaded.gpu);
}

/* "libfabric net, eth0 (25 Gb/s)"; the peer's end is named where it differs; and bounce.h. */
static void describePair(const struct proxyBlob *mine, const struct proxyBlob *theirs, char *why)
{
	char here[48], there[48], gpu[96], text[240];

	describeEnd(mine, here, sizeof(here));
	describeEnd(theirs, there, sizeof(there));
	pthread_mutex_lock(&loaded.lock);
	describeGpuOfPair(mine, theirs, gpu, sizeof(gpu));
	snprintf(text, sizeof(text), "%.32s%s%s%s%s%s", mine->name, here[0] ? ", " : "", here,
		 strcmp(here, there) ? " to " : "", strcmp(here, there) ? there : "", gpu);
	const char *notNic = strcmp(mine->plugin, VERBS) ? loaded.notNic : "";
	snprintf(why, BACKEND_WHY, "%.*s%s%.40s", *notNic ? 100 : BACKEND_WHY - 1, text,
		 *notNic ? "; not verbs: " : "", notNic);
	pthread_mutex_unlock(&loaded.lock);
}

int networkBounces(const struct device *device)
{
	int mode = paramChoice(paramBounce);

	return mode == bounceAlways || (mode == bounceAuto && device->cuda);
}

int networkReaches(const struct proxyBlob *mine, const struct proxyBlob *theirs, char *why)
{
	struct fabricAbout about;
	const struct fabricCalls *calls = networkLoaded(mine, &about);

	if (!mine->hasNetwork) {
		whyNone(mine, why);
		return 0;
	}
	if (!theirs->hasNetwork) {
		snprintf(why, BACKEND_WHY, "it has no network: see its own report");
		return 0;
	}
	if (strcmp(mine->plugin, theirs->plugin)) {
		snprintf(why, BACKEND_WHY,
			 "set one GIN_TRANSPORT: this rank has %.8s, the other one %.8s",
			 mine->plugin, theirs->plugin);
		return 0;
	}
	if (mine->networkKind != theirs->networkKind && !strcmp(mine->plugin, VERBS)) {
		snprintf(why, BACKEND_WHY,
			 "choose ports of one network by GIN_NIC: this rank has %.32s, the other "
			 "one "
			 "%.32s",
			 mine->name, theirs->name);
		return 0;
	}
	if (mine->networkKind != theirs->networkKind) {
		snprintf(why, BACKEND_WHY,
			 "set one GIN_OFI_PROVIDER: this rank has %.32s, the other one %.32s",
			 mine->name, theirs->name);
		return 0;
	}
	if (calls->reaches && !calls->reaches(mine->networkId, theirs->networkId)) {
		snprintf(why, BACKEND_WHY, "the network does not reach it");
		return 0;
	}
	describePair(mine, theirs, why);
	return 1;
}

const struct fabricCalls *networkLoaded(const struct proxyBlob *mine, struct fabricAbout *about)
{
	pthread_mutex_lock(&loaded.lock);
	const struct networkPlugin *plugin = pluginNamed(mine->plugin);
	const struct fabricCalls *calls = plugin ? plugin->calls : NULL;
	if (calls)
		*about = plugin->about;
	pthread_mutex_unlock(&loaded.lock);
	return calls;
}
