/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * param.h - the environment variables
 *
 * One table has the name, default and meaning of each; it is read once per process. gin_environ(7)
 * is checked against it by a test.
 */
#ifndef GIN_LIB_PARAM_H
#define GIN_LIB_PARAM_H

#include "gin.h"

enum param {
	paramBackend,
	paramBootstrap,
	paramGdakiDoorbells,
	paramGdakiQueues,
	paramHostId,
	paramLog,
	paramNic,
	paramNicGid,
	paramNicRetries,
	paramNicSl,
	paramNicTc,
	paramNicTimeout,
	paramProxyAffinity,
	paramProxyFence,
	paramProxyThreads,
	paramRoot,
	paramRoute,
	paramSecret,
	paramSocketIfname,
	paramTimeout,
	paramUarMap,
	PARAM_COUNT
};

/* Of variables with choices, in the order of these in the table. */
enum { bootstrapAuto, bootstrapPmix, bootstrapTcp, bootstrapSelf };
enum { gdakiQueuesGpu, gdakiQueuesHost };
enum { proxyAffinityNear, proxyAffinityCpu, proxyAffinityNone };
enum { proxyFenceAuto, proxyFenceSystem };
enum { routeAuto, routeDirect, routeNetwork };
enum { uarMapIo, uarMapPlain, uarMapCpu };

/* GIN_BACKEND's choices. Defined beside the table of backends, which this layer does not know. */
extern const char paramBackendChoices[];

/* A row of the table. */
struct paramInfo {
	const char *name;
	const char *choices; /* "a|b|c"; NULL: a text, or a number when isNumber */
	int isNumber;	     /* a whole number from `least` to `most` */
	int least, most;
	const char *preset;
	const char *meaning;
	int isSecret; /* the value is never shown */
};

const struct paramInfo *paramInfo(enum param param);

/* The value: index of the choice, number, or text ("" when unset and without default). */
int paramChoice(enum param param);
unsigned paramNumber(enum param param);
const char *paramText(enum param param);

/* The same for messages and reports: of a secret only that it is set. */
const char *paramShown(enum param param);

/*
 * Fails when a variable's value cannot be understood, naming variable, value and choices; warns of
 * GIN_* variables that do not exist. paramChoice and paramNumber give the default for a bad value.
 */
ginResult_t paramCheck(void);

#endif
