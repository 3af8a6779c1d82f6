/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * param.h - the environment variables
 *
 * One table has the name, default and meaning of each variable. The environment is read once per
 * process. A test compares gin_environ(7) with the table.
 */
#ifndef GIN_LIB_PARAM_H
#define GIN_LIB_PARAM_H

#include "gin.h"

enum param {
	paramAttach,
	paramBackend,
	paramBootstrap,
	paramBounce,
	paramBouncePool,
	paramBounceSlot,
	paramCopyEngine,
	paramCopyEngineBytes,
	paramGdakiDoorbells,
	paramGdakiQueues,
	paramHostId,
	paramLog,
	paramLogFile,
	paramNic,
	paramNicGid,
	paramNicRails,
	paramNicRetries,
	paramNicSl,
	paramNicTc,
	paramNicTimeout,
	paramOfiInterface,
	paramOfiProvider,
	paramProxyAffinity,
	paramProxyFence,
	paramProxyThreads,
	paramRoot,
	paramRoute,
	paramSecret,
	paramSelftest,
	paramSocketIfname,
	paramTimeout,
	paramTrace,
	paramTraceEvery,
	paramTraceRecords,
	paramTransport,
	paramUarMap,
	paramWaitWarn,
	PARAM_COUNT
};

/* Values of the variables with choices, in the order of the choices in the table. */
enum { attachOn, attachOff };
enum { bootstrapAuto, bootstrapPmix, bootstrapTcp, bootstrapSelf };
enum { bounceAuto, bounceAlways, bounceNever };
enum { copyEngineAuto, copyEngineOn, copyEngineOff };
enum { gdakiQueuesGpu, gdakiQueuesHost };
enum { proxyAffinityNear, proxyAffinityCpu, proxyAffinityNone };
enum { proxyFenceAuto, proxyFenceSystem };
enum { routeAuto, routeDirect, routeNetwork };
enum { uarMapIo, uarMapPlain, uarMapCpu };

/* GIN_BACKEND's choices. lib/backends.c defines them: this layer does not know the backends. */
extern const char paramBackendChoices[];

/* A row of the table. */
struct paramInfo {
	const char *name;
	const char *choices; /* "a|b|c"; NULL: a text, or a number if isNumber */
	int isNumber;	     /* a whole number from `least` to `most` */
	int least, most;
	const char *preset;
	const char *meaning;
	int isSecret; /* the value is never shown */
};

const struct paramInfo *paramInfo(enum param param);

/* Returns 0, and leaves *value unset, when `text` is no choice or no number in range. */
int paramParse(const struct paramInfo *info, const char *text, unsigned *value);

/* The value: index of the choice, number, or text ("" when unset and without a default). */
int paramChoice(enum param param);
unsigned paramNumber(enum param param);
const char *paramText(enum param param);

/*
 * Fails when a variable has a bad value; the sentence names variable, value and choices. Warns of
 * GIN_* variables that do not exist. paramChoice() and paramNumber() return the default for a
 * variable with a bad value.
 */
ginResult_t paramCheck(void);

#endif
