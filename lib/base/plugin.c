/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin.c - finds and loads plug-ins */
#include "plugin.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FOLDER = 1024, FILE_PATH = FOLDER + 128 };

/* The folder of libgin.so, with a slash at its end; "" when it is not known. */
static void ownFolder(char *folder)
{
	Dl_info self;
	const char *slash = NULL;

	if (dladdr((const void *)pluginOpen, &self) && self.dli_fname)
		slash = strrchr(self.dli_fname, '/');
	if (!slash || slash - self.dli_fname + 2 > FOLDER)
		folder[0] = 0;
	else
		snprintf(folder, FOLDER, "%.*s/", (int)(slash - self.dli_fname), self.dli_fname);
}

/*
 * The path of the plug-in: next to libgin.so in a build tree, in libgin0/ in an installation.
 * Otherwise the bare name, which the loader searches for.
 */
static void find(const char *folder, const char *file, char *path)
{
	static const char *const folders[] = {"", "libgin0/"};

	for (size_t i = 0; folder[0] && i < sizeof(folders) / sizeof(folders[0]); i++) {
		snprintf(path, FILE_PATH, "%s%s%s", folder, folders[i], file);
		if (!access(path, F_OK))
			return;
	}
	snprintf(path, FILE_PATH, "%s", file);
}

static enum pluginResult notOpened(const char *folder, const char *path, char *why, size_t room)
{
	if (strchr(path, '/')) {
		snprintf(why, room, "%s", dlerror());
		return pluginBroken;
	}
	snprintf(why, room, "%s", folder[0] ? folder : "the loader's path");
	return pluginMissing;
}

/*
 * Libraries that a plug-in needs may take signals when they are loaded: Ctrl-C then ends the
 * process, whatever handler it has. The program keeps its handlers.
 */
static void *load(const char *path)
{
	static const int taken[] = {SIGINT, SIGTERM, SIGSEGV, SIGBUS, SIGILL, SIGABRT};
	enum { TAKEN = sizeof(taken) / sizeof(taken[0]) };
	struct sigaction own[TAKEN];

	for (int i = 0; i < TAKEN; i++)
		sigaction(taken[i], NULL, &own[i]);
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	for (int i = 0; i < TAKEN; i++)
		sigaction(taken[i], &own[i], NULL);
	return library;
}

enum pluginResult pluginOpen(const struct plugin *plugin, const void **calls, char *why,
			     size_t room)
{
	char folder[FOLDER], path[FILE_PATH];
	size_t size;

	ownFolder(folder);
	find(folder, plugin->file, path);
	void *library = load(path);
	if (!library)
		return notOpened(folder, path, why, room);
	const void *found = dlsym(library, plugin->symbol);
	if (found)
		memcpy(&size, found, sizeof(size));
	if (!found || size != plugin->size) {
		snprintf(why, room, "%s belongs to another libgin", plugin->file);
		return pluginForeign;
	}
	*calls = found;
	return pluginFound;
}
