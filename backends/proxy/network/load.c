/* SPDX-License-Identifier: BSD-3-Clause */
/* load.c - GIN_TRANSPORT, and the plug-in that it names */
#include "load.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/log.h"
#include "lib/base/plugin.h"

#define NAME_MOST 16

static struct {
	pthread_mutex_t lock;
	const struct fabricCalls *calls;
	struct fabricAbout about;
	char name[NAME_MOST + 1];
} loaded = {.lock = PTHREAD_MUTEX_INITIALIZER};

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

static int loadPlugin(const char *name, char *why)
{
	char file[NAME_MOST + 16], reason[FABRIC_WHY];
	const struct plugin plugin = {file, FABRIC_SYMBOL, sizeof(struct fabricCalls)};
	const void *calls;

	snprintf(file, sizeof(file), "libgin-%s.so", name);
	enum pluginResult result = pluginOpen(&plugin, &calls, reason, sizeof(reason));
	if (result == pluginFound) {
		loaded.calls = calls;
		return 1;
	}
	snprintf(why, BACKEND_WHY, "GIN_TRANSPORT=%s: %.100s%s", name, reason,
		 result == pluginMissing ? " has no such plug-in" : "");
	return 0;
}

/* Loads the plug-in once. A process has one network. */
static int findNetwork(const char *name, struct fabricAbout *about, char *why)
{
	char reason[FABRIC_WHY] = "";
	int found = 1;

	pthread_mutex_lock(&loaded.lock);
	if (!loaded.calls && (found = loadPlugin(name, why)))
		snprintf(loaded.name, sizeof(loaded.name), "%s", name);
	if (found && loaded.calls->probe(about, reason)) {
		snprintf(why, BACKEND_WHY, "GIN_TRANSPORT=%s: %.120s", name, reason);
		found = 0;
	}
	if (found)
		loaded.about = *about;
	pthread_mutex_unlock(&loaded.lock);
	return found;
}

static void addNetwork(struct proxyBlob *blob, const char *name, char *why)
{
	struct fabricAbout about = {.name = ""};

	if (!findNetwork(name, &about, why)) {
		logWrite(logInfo, "proxy: %s", why);
		return;
	}
	blob->hasNetwork = 1;
	blob->prefersNetwork = !blob->allowsIpc;
	blob->networkKind = about.kind;
	blob->networkId = about.id;
}

int networkProbe(struct proxyBlob *blob, char *why)
{
	const char *list = paramText(paramTransport);
	unsigned threads = paramNumber(paramProxyThreads);
	char name[NAME_MOST + 1];

	why[0] = '\0';
	blob->lanes = (uint8_t)(threads ? threads : 1);
	for (size_t length; *list; list += length + (list[length] == ',')) {
		length = nameAt(list);
		if (!isPlain(list, length)) {
			snprintf(why, BACKEND_WHY,
				 "GIN_TRANSPORT: must be ipc, the name of a network, or both with "
				 "a comma");
			return 0;
		}
		snprintf(name, sizeof(name), "%.*s", (int)length, list);
		if (!strcmp(name, "ipc"))
			blob->allowsIpc = 1;
		else if (!blob->hasNetwork)
			addNetwork(blob, name, why);
	}
	return blob->allowsIpc || blob->hasNetwork;
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

	if (!mine->hasNetwork || !theirs->hasNetwork || mine->networkKind != theirs->networkKind) {
		snprintf(why, BACKEND_WHY, "the two have no network in common: see GIN_TRANSPORT");
		return 0;
	}
	if (calls->reaches && !calls->reaches(mine->networkId, theirs->networkId)) {
		snprintf(why, BACKEND_WHY, "the network does not reach it");
		return 0;
	}
	snprintf(why, BACKEND_WHY, "%s", about.name);
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
