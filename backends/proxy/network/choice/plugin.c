/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin.c - the plug-ins of networks */
#include "rails.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/plugin.h"

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
} loaded = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The slot of the plug-in with this name, or a free slot. NULL: none. The caller holds the lock. */
static struct networkPlugin *pluginNamed(const char *name)
{
	for (int i = 0; i < PLUGINS; i++)
		if (!loaded.plugin[i].calls || !strcmp(loaded.plugin[i].name, name))
			return &loaded.plugin[i];
	return NULL;
}

/* Loads the plug-in once. The caller holds the lock. */
static const struct fabricCalls *loadPlugin(const char *name, char *why)
{
	char file[NETWORK_NAME_MOST + 16], reason[FABRIC_WHY];
	const struct plugin plugin = {file, FABRIC_SYMBOL, sizeof(struct fabricCalls)};
	struct networkPlugin *slot = pluginNamed(name);
	const void *calls;

	if (slot && slot->calls)
		return slot->calls;
	snprintf(file, sizeof(file), "libgin-%s.so", strcmp(name, NETWORK_VERBS) ? name : "rdma");
	enum pluginResult result = pluginOpen(&plugin, &calls, reason, sizeof(reason));
	if (result == pluginFound && slot) {
		snprintf(slot->name, sizeof(slot->name), "%s", name);
		slot->calls = calls;
		return calls;
	}
	if (result == pluginMissing)
		snprintf(why, BACKEND_WHY, "there is no %s in %.90s", file, reason);
	else
		snprintf(why, BACKEND_WHY, "%s: %.120s", file, reason);
	return NULL;
}

const struct fabricCalls *networkPlugin(const char *name, char *why)
{
	pthread_mutex_lock(&loaded.lock);
	const struct fabricCalls *calls = loadPlugin(name, why);
	pthread_mutex_unlock(&loaded.lock);
	return calls;
}

void networkPluginFound(const char *name, const struct fabricAbout *about)
{
	pthread_mutex_lock(&loaded.lock);
	pluginNamed(name)->about = *about;
	pthread_mutex_unlock(&loaded.lock);
}

const struct fabricCalls *networkLoaded(const char *name, struct fabricAbout *about)
{
	pthread_mutex_lock(&loaded.lock);
	const struct networkPlugin *plugin = pluginNamed(name);
	const struct fabricCalls *calls = plugin ? plugin->calls : NULL;
	if (calls)
		*about = plugin->about;
	pthread_mutex_unlock(&loaded.lock);
	return calls;
}
