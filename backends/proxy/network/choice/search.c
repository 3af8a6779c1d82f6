/* SPDX-License-Identifier: BSD-3-Clause */
/* search.c - a rank's search for its network, and whether it reaches a peer's network */
#include "choice.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/log.h"
#include "rails.h"

/* The last search of the process. The lock also keeps searches apart. */
static struct {
	pthread_mutex_t lock;
	char why[BACKEND_WHY];	  /* why it found no network; "": it found one */
	char notNic[BACKEND_WHY]; /* why it did not choose verbs; "": nothing to say */
	char gpu[FABRIC_WHY];	  /* how the network reaches GPU memory, or why it does not */
} last = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void noteNotNic(const char *notNic)
{
	pthread_mutex_lock(&last.lock);
	snprintf(last.notNic, sizeof(last.notNic), "%s", notNic);
	pthread_mutex_unlock(&last.lock);
}

static int findNetwork(const struct backendHost *host, const char *name, uint32_t lanes,
		       struct networkFound *out, char *why)
{
	pthread_mutex_lock(&last.lock);
	int found = networkRailsFind(host, name, lanes, out, why);
	if (found) {
		networkPluginFound(name, &out->about);
		memcpy(last.gpu, out->gpu, sizeof(last.gpu));
	}
	snprintf(last.why, sizeof(last.why), "%s", found ? "" : why);
	pthread_mutex_unlock(&last.lock);
	return found;
}

static void describeNetwork(struct proxyBlob *blob, const char *name,
			    const struct networkFound *found)
{
	const struct fabricAbout *about = &found->about;

	blob->hasNetwork = 1;
	blob->rails = found->rails;
	blob->reachesGpu = found->reachesGpu;
	blob->pairBytes = about->pairBytes;
	snprintf(blob->plugin, sizeof(blob->plugin), "%s", name);
	blob->networkKind = about->kind;
	blob->networkId = about->id;
	blob->speed = about->speed;
	memcpy(blob->name, about->name, sizeof(blob->name));
	memcpy(blob->interface, about->interface, sizeof(blob->interface));
	memcpy(blob->address, found->address, sizeof(blob->address));
	if (blob->rails > 1)
		snprintf(blob->interface, sizeof(blob->interface), "%.12s +%u", about->interface,
			 networkRails(blob) - 1);
}

/* GPU memory that the network reaches does not bounce. */
static void describeGpu(const struct backendHost *host, const struct networkFound *found,
			struct proxyBlob *blob)
{
	blob->bounces &= !blob->reachesGpu;
	if (!host->device || !host->device->cuda)
		return;
	logWrite(logInfo, "the network %s GPU memory%s%s",
		 blob->reachesGpu ? "reaches" : "does not reach", blob->reachesGpu ? " by " : ": ",
		 found->gpu);
}

ginResult_t networkSearch(const struct backendHost *host, struct proxyBlob *blob)
{
	char why[BACKEND_WHY] = "", notNic[BACKEND_WHY];
	struct transportChoice choice;
	struct networkFound found = {.rails = 0};

	blob->hasSearched = 1;
	if (!networkChoose(host, &choice, notNic))
		return ginSuccess;
	noteNotNic(notNic);
	if (findNetwork(host, choice.name, blob->lanes, &found, why)) {
		describeNetwork(blob, choice.name, &found);
		describeGpu(host, &found, blob);
		return ginSuccess;
	}
	if (choice.searches == searchAnyway)
		return fail(ginErrorUnsupported, "GIN_TRANSPORT=%s: %s", paramText(paramTransport),
			    why);
	logWrite(logInfo, "the proxy has no network: %s", why);
	return ginSuccess;
}

static void whyNone(const struct proxyBlob *mine, char *why)
{
	pthread_mutex_lock(&last.lock);
	if (mine->searches == searchNever)
		snprintf(why, BACKEND_WHY, "GIN_TRANSPORT=%.40s rules a network out",
			 paramText(paramTransport));
	else
		snprintf(why, BACKEND_WHY, "no network: %.140s",
			 mine->hasSearched ? last.why : "it is looked for only where it is needed");
	pthread_mutex_unlock(&last.lock);
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

/* The caller holds the lock. */
static void describeGpuOfPair(const struct proxyBlob *mine, const struct proxyBlob *theirs,
			      char *text, size_t room)
{
	text[0] = '\0';
	if (mine->bounces && mine->hasSearched)
		snprintf(text, room, "; GPU memory bounces: %.60s", last.gpu);
	else if (mine->bounces || theirs->bounces)
		snprintf(text, room, "; GPU memory bounces");
	else if (mine->reachesGpu)
		snprintf(text, room, "; GPU memory by %.20s", last.gpu);
}

/*
 * "libfabric net, eth0 (25 Gb/s)"; the peer's side is named where it differs; then, whether memory
 * bounces.
 */
static void describePair(const struct proxyBlob *mine, const struct proxyBlob *theirs, char *why)
{
	char here[48], there[48], gpu[96], text[240];

	describeEnd(mine, here, sizeof(here));
	describeEnd(theirs, there, sizeof(there));
	pthread_mutex_lock(&last.lock);
	describeGpuOfPair(mine, theirs, gpu, sizeof(gpu));
	snprintf(text, sizeof(text), "%.32s%s%s%s%s%s", mine->name, here[0] ? ", " : "", here,
		 strcmp(here, there) ? " to " : "", strcmp(here, there) ? there : "", gpu);
	const char *notNic = strcmp(mine->plugin, NETWORK_VERBS) ? last.notNic : "";
	snprintf(why, BACKEND_WHY, "%.*s%s%.40s", *notNic ? 100 : BACKEND_WHY - 1, text,
		 *notNic ? "; not verbs: " : "", notNic);
	pthread_mutex_unlock(&last.lock);
}

int networkBounces(const struct device *device)
{
	int mode = paramChoice(paramBounce);

	return mode == bounceAlways || (mode == bounceAuto && device->cuda);
}

int networkReaches(const struct proxyBlob *mine, const struct proxyBlob *theirs, char *why)
{
	struct fabricAbout about;
	const struct fabricCalls *calls = networkLoaded(mine->plugin, &about);

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
	if (mine->networkKind != theirs->networkKind && !strcmp(mine->plugin, NETWORK_VERBS)) {
		snprintf(why, BACKEND_WHY,
			 "choose ports of one network by GIN_NIC: this rank has %.32s, the other "
			 "one %.32s",
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
