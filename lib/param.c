/* SPDX-License-Identifier: BSD-3-Clause */
/* param.c - the environment variables */
#include "param.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "log.h"

static const struct paramInfo table[PARAM_COUNT] = {
	[paramBootstrap] = {"GIN_BOOTSTRAP", "auto|pmix|tcp|self", 0, "auto",
			    "how the ranks find each other"},
	[paramHostId] = {"GIN_HOSTID", NULL, 0, "",
			 "ranks with the same text are on one host; default: what the kernel says"},
	[paramLog] = {"GIN_LOG", "none|error|warn|info|debug", 0, "warn",
		      "what goes to standard error"},
	[paramRoot] = {"GIN_ROOT", NULL, 0, "",
		       "host:port where rank 0 listens for the others, for the bootstrap tcp"},
	[paramRoute] = {"GIN_ROUTE", "auto|direct|network", 0, "auto",
			"routes that may be chosen; network: no direct one, own rank included"},
	[paramSecret] = {"GIN_SECRET", NULL, 0, "",
			 "long random text, the same on all ranks, without which none may join"},
	[paramSocketIfname] = {"GIN_SOCKET_IFNAME", NULL, 0, "",
			       "network interface of the control plane; default: all that are up"},
	[paramTimeout] = {"GIN_TIMEOUT", NULL, 1, "600",
			  "seconds until a collective call gives up"},
};

static struct {
	const char *text;
	unsigned value; /* index of the choice, or the number */
	int bad;
} values[PARAM_COUNT];

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The index of `text` in "a|b|c", or -1. */
static int choiceIndex(const char *choices, const char *text)
{
	size_t length = strlen(text);

	for (int index = 0;; index++) {
		size_t next = strcspn(choices, "|");
		if (next == length && !strncmp(choices, text, length))
			return index;
		if (!choices[next])
			return -1;
		choices += next + 1;
	}
}

/* 0 when `text` is none of the choices, or no number: then *value is not set. */
static int parse(const struct paramInfo *info, const char *text, unsigned *value)
{
	if (info->choices) {
		int index = choiceIndex(info->choices, text);
		if (index < 0)
			return 0;
		*value = (unsigned)index;
	} else if (info->isNumber) {
		char *end;
		long number = strtol(text, &end, 10);
		if (*end || end == text || number < 1 || number > 1000000000)
			return 0;
		*value = (unsigned)number;
	}
	return 1;
}

static void readAll(void)
{
	for (int p = 0; p < PARAM_COUNT; p++) {
		const char *text = getenv(table[p].name);
		if (!text || !*text)
			text = table[p].preset;
		values[p].text = strdup(text);
		values[p].bad = !values[p].text || !parse(&table[p], text, &values[p].value);
		if (values[p].bad)
			parse(&table[p], table[p].preset, &values[p].value);
	}
}

const struct paramInfo *paramInfo(enum param param)
{
	return &table[param];
}

int paramChoice(enum param param)
{
	return (int)paramNumber(param);
}

unsigned paramNumber(enum param param)
{
	pthread_once(&once, readAll);
	return values[param].value;
}

const char *paramText(enum param param)
{
	pthread_once(&once, readAll);
	return values[param].text ? values[param].text : "";
}

static int known(const char *entry)
{
	for (int p = 0; p < PARAM_COUNT; p++) {
		size_t length = strlen(table[p].name);
		if (!strncmp(entry, table[p].name, length) && entry[length] == '=')
			return 1;
	}
	return 0;
}

static void warnUnknown(void)
{
	extern char **environ;

	for (char **entry = environ; entry && *entry; entry++)
		if (!strncmp(*entry, "GIN_", 4) && !known(*entry))
			logWrite(logWarn, "%.*s is not a variable of libgin: see gin_environ(7)",
				 (int)strcspn(*entry, "="), *entry);
}

static pthread_once_t warned = PTHREAD_ONCE_INIT;

ginResult_t paramCheck(void)
{
	pthread_once(&once, readAll);
	pthread_once(&warned, warnUnknown);
	for (int p = 0; p < PARAM_COUNT; p++)
		if (values[p].bad)
			return fail(ginErrorInvalidArgument, "%s=%s: must be %s", table[p].name,
				    paramText(p),
				    table[p].choices ? table[p].choices : "a number from 1");
	return ginSuccess;
}
