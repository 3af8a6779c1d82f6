/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin.h - libgin-NAME.so: code of libgin that needs a library which may be absent
 *
 * Each exports one struct of calls, which begins with its own size: a different size means that the
 * plug-in belongs to another libgin. A plug-in is never unloaded.
 */
#ifndef GIN_LIB_PLUGIN_H
#define GIN_LIB_PLUGIN_H

#include <stddef.h>

struct plugin {
	const char *file;   /* "libgin-pmix.so" */
	const char *symbol; /* the name of the struct */
	size_t size;	    /* of the struct */
};

enum pluginResult { pluginFound, pluginMissing, pluginBroken, pluginForeign };

/*
 * Loads the plug-in and points *calls to its struct. pluginMissing: there is no such file, and
 * `why` is the folder in which it is expected. pluginBroken: `why` is the loader's message.
 * pluginForeign: the plug-in belongs to another libgin. Any thread.
 */
enum pluginResult pluginOpen(const struct plugin *plugin, const void **calls, char *why,
			     size_t room);

#endif
