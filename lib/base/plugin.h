/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin.h - libgin-NAME.so: parts of libgin that need a library which may be absent
 *
 * Each exports one struct of calls that begins with its own size, by which a plug-in of another
 * libgin is told. It is never unloaded.
 */
#ifndef GIN_LIB_PLUGIN_H
#define GIN_LIB_PLUGIN_H

#include <stddef.h>

struct plugin {
	const char *file;   /* "libgin-pmix.so" */
	const char *symbol; /* of its struct */
	size_t size;	    /* of that */
};

enum pluginResult { pluginFound, pluginMissing, pluginBroken, pluginForeign };

/*
 * Its struct, by `calls`. Missing: there is no such file, and `why` has the folder where it would
 * be; broken: `why` has the loader's words; foreign: it belongs to another libgin. Any thread.
 */
enum pluginResult pluginOpen(const struct plugin *plugin, const void **calls, char *why,
			     size_t room);

#endif
