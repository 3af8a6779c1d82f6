/* SPDX-License-Identifier: BSD-3-Clause */
/* load.c - GIN_TRANSPORT, the plug-in of a network, and its search */
#include "load.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "interface.h"
#include "lib/base/log.h"
#include "lib/base/plugin.h"

#define NAME_MOST 16

/* The plug-in of the process, which is never unloaded. */
static struct {
	pthread_mutex_t lock;
	const struct fabricCalls *calls; /* NULL: not loaded */
	struct fabricAbout about;	 /* by the last search that found a network */
	char why[BACKEND_WHY];		 /* why the last search found none; "": it found one */
} loaded = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* What GIN_TRANSPORT says. */
struct transportChoice {
	int allowsIpc, prefersNetwork;
	enum backendSearch searches;
	char name[NAME_MOST + 1]; /* of the network; "": none */
};

/* One name of the list: its length. */
static size_t nameAt(const char *list)
{
	return strcspn(list, ",");
}

static int isPlain(const char *name, size_t length)
{
	return length && length <= NAME_MOST &&
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

/* Returns 0, and why, if GIN_TRANSPORT is wrong. */
static int readChoice(struct transportChoice *choice, char *why)
{
	const char *list = paramText(paramTransport);

	*choice =
		(struct transportChoice){.allowsIpc = 1, .searches = searchMissing, .name = "ofi"};
	if (*list)
		*choice = (struct transportChoice){.searches = searchNever};
	for (size_t length; *list; list += length + (list[length] == ',')) {
		length = nameAt(list);
		if (isPlain(list, length) && addName(choice, list, length))
			continue;
		snprintf(why, BACKEND_WHY,
			 "GIN_TRANSPORT: must be ipc, the name of a network, or both with a comma");
		return 0;
	}
	return 1;
}

/* Loads the plug-in once: a process has one network. The lock is held. */
static int loadPlugin(const char *name, char *why)
{
	char file[NAME_MOST + 16], reason[FABRIC_WHY];
	const struct plugin plugin = {file, FABRIC_SYMBOL, sizeof(struct fabricCalls)};
	const void *calls;

	if (loaded.calls)
		return 1;
	snprintf(file, sizeof(file), "libgin-%s.so", name);
	enum pluginResult result = pluginOpen(&plugin, &calls, reason, sizeof(reason));
	if (result == pluginFound) {
		loaded.calls = calls;
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

/* The lock is held. */
static int tryNetwork(const struct backendHost *host, const char *name, struct fabricAbout *about,
		      char *why)
{
	struct networkInterface interface;
	const struct fabricWanted want = {paramText(paramOfiProvider), interface.name,
					  interface.address};

	return networkInterfaceFind(host, &interface, why) && loadPlugin(name, why) &&
	       !loaded.calls->probe(&want, about, why);
}

static int findNetwork(const struct backendHost *host, const char *name, struct fabricAbout *about,
		       char *why)
{
	pthread_mutex_lock(&loaded.lock);
	int found = tryNetwork(host, name, about, why);
	if (found)
		loaded.about = *about;
	snprintf(loaded.why, sizeof(loaded.why), "%s", found ? "" : why);
	pthread_mutex_unlock(&loaded.lock);
	return found;
}

static void describeNetwork(struct proxyBlob *blob, const struct fabricAbout *about)
{
	blob->hasNetwork = 1;
	blob->networkKind = about->kind;
	blob->networkId = about->id;
	blob->speed = about->speed;
	memcpy(blob->name, about->name, sizeof(blob->name));
	memcpy(blob->interface, about->interface, sizeof(blob->interface));
}

ginResult_t networkSearch(const struct backendHost *host, struct proxyBlob *blob)
{
	struct fabricAbout about = {.name = ""};
	struct transportChoice choice;
	char why[BACKEND_WHY] = "";

	blob->hasSearched = 1;
	if (!readChoice(&choice, why) || !choice.name[0])
		return ginSuccess;
	if (findNetwork(host, choice.name, &about, why)) {
		describeNetwork(blob, &about);
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

/* "libfabric net, eth0 (25 Gb/s)"; the peer's end is named where it differs; and bounce.h. */
static void describePair(const struct proxyBlob *mine, const struct proxyBlob *theirs, char *why)
{
	char here[48], there[48];

	describeEnd(mine, here, sizeof(here));
	describeEnd(theirs, there, sizeof(there));
	snprintf(why, BACKEND_WHY, "%.32s%s%s%s%s%s", mine->name, here[0] ? ", " : "", here,
		 strcmp(here, there) ? " to " : "", strcmp(here, there) ? there : "",
		 mine->bounces || theirs->bounces ? "; GPU memory bounces" : "");
}

int networkBounces(const struct device *device)
{
	int mode = paramChoice(paramBounce);

	return mode == bounceAlways || (mode == bounceAuto && device->cuda);
}

int networkReaches(const struct proxyBlob *mine, const struct proxyBlob *theirs, char *why)
{
	struct fabricAbout about;
	const struct fabricCalls *calls = networkLoaded(&about);

	if (!mine->hasNetwork) {
		whyNone(mine, why);
		return 0;
	}
	if (!theirs->hasNetwork) {
		snprintf(why, BACKEND_WHY, "it has no network: see its own report");
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

const struct fabricCalls *networkLoaded(struct fabricAbout *about)
{
	pthread_mutex_lock(&loaded.lock);
	const struct fabricCalls *calls = loaded.calls;
	*about = loaded.about;
	pthread_mutex_unlock(&loaded.lock);
	return calls;
}
