/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_param.c - the environment variables
 *
 *	unit_param		tests
 *	unit_param --list	one line per variable: name, choices or kind, default, meaning;
 *				between tabs
 */
#include "lib/backends.h"
#include "lib/base/log.h"
#include "lib/base/param.h"

#include "expect.h"

/* The kind of a variable's value, as --list prints it and a test of gin_environ(7) reads it. */
static const char *kindOf(const struct paramInfo *info)
{
	static char text[64];

	if (info->choices)
		return info->choices;
	if (!info->isNumber)
		return "text";
	snprintf(text, sizeof(text), "number from %d to %d", info->least, info->most);
	return text;
}

static int list(void)
{
	for (int p = 0; p < PARAM_COUNT; p++)
		printf("%s\t%s\t%s\t%s\n", paramInfo(p)->name, kindOf(paramInfo(p)),
		       paramInfo(p)->preset, paramInfo(p)->meaning);
	return 0;
}

/* All names differ, and every row has the texts that messages and the manual need. */
static void tableIsWhole(void)
{
	for (int p = 0; p < PARAM_COUNT; p++) {
		const struct paramInfo *info = paramInfo(p);
		EXPECT(info->name && !strncmp(info->name, "GIN_", 4));
		EXPECT(info->preset && info->meaning && *info->meaning);
		EXPECT(!info->choices || !info->isNumber);
		for (int q = 0; q < p; q++)
			EXPECT(strcmp(info->name, paramInfo(q)->name));
	}
}

/* GIN_BACKEND's choices are "auto" and the network backends, in the table's order. */
static void choicesAreBackends(void)
{
	char choices[256] = "auto";

	EXPECT(!backendsTable[BACKENDS_DIRECT]->network);
	for (int b = BACKENDS_NETWORK; b < BACKENDS_COUNT; b++) {
		EXPECT(backendsTable[b]->network);
		EXPECT_EQUAL(backendsFind(backendsTable[b]->name), b);
		strcat(strcat(choices, "|"), backendsTable[b]->name);
	}
	EXPECT_TEXT(paramInfo(paramBackend)->choices, choices);
	EXPECT_EQUAL(backendsFind("direct"), 0);
	EXPECT_EQUAL(backendsFind("none"), 0);
}

static void expectDefaults(void)
{
	EXPECT_SUCCESS(paramCheck());
	EXPECT_EQUAL(paramChoice(paramBootstrap), bootstrapAuto);
	EXPECT_TEXT(paramText(paramBootstrap), "auto");
	EXPECT_TEXT(paramText(paramHostId), "");
	EXPECT_EQUAL(paramChoice(paramLog), logWarn);
	EXPECT_EQUAL(paramChoice(paramProxyFence), proxyFenceAuto);
	EXPECT_EQUAL(paramNumber(paramProxyThreads), 1);
	EXPECT_TEXT(paramText(paramRoot), "");
	EXPECT_EQUAL(paramChoice(paramRoute), routeAuto);
	EXPECT_TEXT(paramText(paramSecret), "");
	EXPECT_TEXT(paramText(paramSocketIfname), "");
	EXPECT_EQUAL(paramNumber(paramTimeout), 600);
}

static void setAll(const char *value)
{
	for (int p = 0; p < PARAM_COUNT; p++)
		setenv(paramInfo(p)->name, value, 1);
}

static void emptyIsUnset(void)
{
	setAll("");
	expectDefaults();
}

static void readOnce(void)
{
	expectDefaults();
	setenv("GIN_TIMEOUT", "7", 1);
	setenv("GIN_ROUTE", "bad", 1);
	expectDefaults();
}

static void valuesOfEach(void)
{
	setenv("GIN_BOOTSTRAP", "self", 1);
	setenv("GIN_HOSTID", "rack 7|b", 1);
	setenv("GIN_LOG", "debug", 1);
	setenv("GIN_PROXY_FENCE", "system", 1);
	setenv("GIN_PROXY_THREADS", "0", 1);
	setenv("GIN_ROOT", "node7:5000", 1);
	setenv("GIN_ROUTE", "network", 1);
	setenv("GIN_SECRET", "open sesame", 1);
	setenv("GIN_SOCKET_IFNAME", "eth7", 1);
	setenv("GIN_TIMEOUT", "1000000000", 1);
	EXPECT_SUCCESS(paramCheck());
	EXPECT_EQUAL(paramChoice(paramBootstrap), bootstrapSelf);
	EXPECT_TEXT(paramText(paramBootstrap), "self");
	EXPECT_TEXT(paramText(paramHostId), "rack 7|b");
	EXPECT_EQUAL(paramChoice(paramLog), logDebug);
	EXPECT_EQUAL(paramChoice(paramProxyFence), proxyFenceSystem);
	EXPECT_EQUAL(paramNumber(paramProxyThreads), 0);
	EXPECT_TEXT(paramText(paramRoot), "node7:5000");
	EXPECT_EQUAL(paramChoice(paramRoute), routeNetwork);
	EXPECT_TEXT(paramText(paramSecret), "open sesame");
	EXPECT_TEXT(paramText(paramSocketIfname), "eth7");
	EXPECT_EQUAL(paramNumber(paramTimeout), 1000000000);
	ginParamInfo_t secret = GIN_PARAM_INFO_INIT;
	EXPECT_SUCCESS(ginParamQuery(paramSecret, &secret));
	EXPECT_TEXT(secret.value, "(set)");
}

/* The choice that is tried, by its variable and its index. */
static struct {
	enum param param;
	int index;
	char text[32];
} tried;

static void tryChoice(void)
{
	setenv(paramInfo(tried.param)->name, tried.text, 1);
	EXPECT_SUCCESS(paramCheck());
	EXPECT_EQUAL(paramChoice(tried.param), tried.index);
	EXPECT_TEXT(paramText(tried.param), tried.text);
}

/* Every choice of every variable, by the table itself. */
static void everyChoice(void)
{
	char name[96];

	for (int p = 0; p < PARAM_COUNT; p++) {
		const char *at = paramInfo(p)->choices;
		for (int i = 0; at && *at; i++, at += strcspn(at, "|"), at += *at == '|') {
			tried.param = p;
			tried.index = i;
			snprintf(tried.text, sizeof(tried.text), "%.*s", (int)strcspn(at, "|"), at);
			snprintf(name, sizeof(name), "%s=%s", paramInfo(p)->name, tried.text);
			expectChild(name, tryChoice);
		}
	}
}

/* paramCheck() names variable, value and choices; everything else works on with the default. */
static void tryBad(void)
{
	const struct paramInfo *info = paramInfo(tried.param);
	char assignment[96];

	setenv("GIN_LOG", "none", 1);
	setenv(info->name, tried.text, 1);
	snprintf(assignment, sizeof(assignment), "%s=%s", info->name, tried.text);
	EXPECT_FAILS(paramCheck(), ginErrorInvalidArgument, assignment,
		     info->choices ? info->choices : kindOf(info));
	EXPECT_FAILS(paramCheck(), ginErrorInvalidArgument, assignment); /* it stays bad */
	unsetenv(info->name);
	if (tried.param == paramLog)
		EXPECT_EQUAL(paramChoice(paramLog), logWarn);
	else if (tried.param == paramTimeout)
		EXPECT_EQUAL(paramNumber(paramTimeout), 600);
	else if (tried.param == paramProxyThreads)
		EXPECT_EQUAL(paramNumber(paramProxyThreads), 1);
	else
		EXPECT_EQUAL(paramChoice(tried.param), 0);
}

static void badValues(enum param param, const char *const *values)
{
	char name[96];

	for (; *values; values++) {
		tried.param = param;
		snprintf(tried.text, sizeof(tried.text), "%s", *values);
		snprintf(name, sizeof(name), "bad %s=%s", paramInfo(param)->name, *values);
		expectChild(name, tryBad);
	}
}

/* Keeps what `body` writes to standard error. */
static char printed[4096];

static void hear(void (*body)(void))
{
	int ends[2], kept = dup(STDERR_FILENO);

	EXPECT(!pipe(ends) && kept >= 0);
	EXPECT(dup2(ends[1], STDERR_FILENO) >= 0);
	body();
	dup2(kept, STDERR_FILENO);
	close(kept);
	close(ends[1]);
	ssize_t got = read(ends[0], printed, sizeof(printed) - 1);
	printed[got < 0 ? 0 : got] = '\0';
	close(ends[0]);
}

static void checkTwice(void)
{
	EXPECT_SUCCESS(paramCheck());
	EXPECT_SUCCESS(paramCheck());
}

static void unknownIsWarnedOf(void)
{
	setenv("GIN_TIMEOUTS", "7", 1);
	setenv("GIN_", "x", 1);
	setenv("GINGER", "x", 1);
	setenv("GIN_EP_TIMEOUT", "7", 1);
	hear(checkTwice);
	EXPECT_HAS(printed, "WARN GIN_TIMEOUTS is not a variable of libgin");
	EXPECT_HAS(printed, "WARN GIN_ is not a variable of libgin");
	EXPECT(!strstr(printed, "GINGER"));
	EXPECT(!strstr(printed, "GIN_EP_"));
	char *first = strstr(printed, "GIN_TIMEOUTS");
	EXPECT(first && !strstr(first + 1, "GIN_TIMEOUTS")); /* once */
	EXPECT_EQUAL(paramNumber(paramTimeout), 600);
}

static void logKeepsWarningsBack(void)
{
	setenv("GIN_LOG", "error", 1);
	setenv("GIN_TIMEOUTS", "7", 1);
	hear(checkTwice);
	EXPECT_TEXT(printed, "");
}

static void knownAreNotWarnedOf(void)
{
	setAll("");
	hear(checkTwice);
	EXPECT_TEXT(printed, "");
}

/* The caller's environment may have such variables. */
static void clearEnvironment(void)
{
	extern char **environ;
	char name[256];

	for (char **at = environ; *at;) {
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(*at, "="), *at);
		if (strncmp(name, "GIN_", 4) || unsetenv(name))
			at++;
		else
			at = environ;
	}
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--list"))
		return list();
	clearEnvironment();
	tableIsWhole();
	choicesAreBackends();
	expectChild("defaults", expectDefaults);
	expectChild("an empty value counts as unset", emptyIsUnset);
	expectChild("the environment is read once", readOnce);
	expectChild("a value of each", valuesOfEach);
	everyChoice();
	badValues(paramBootstrap,
		  (const char *const[]){"udp", "aut", "autopmix", "auto|pmix", NULL});
	badValues(paramLog, (const char *const[]){"verbose", "3", NULL});
	badValues(paramRoute, (const char *const[]){"Direct", " direct", "direct ", "|", NULL});
	badValues(paramTimeout,
		  (const char *const[]){"0", "-1", "1.5", "10s", "0x10", "ten", "1000000001",
					"4294967297", "99999999999999999999", NULL});
	badValues(paramProxyThreads, (const char *const[]){"-1", "65", "all", NULL});
	expectChild("a variable that is none is warned of", unknownIsWarnedOf);
	expectChild("GIN_LOG=error keeps the warning back", logKeepsWarningsBack);
	expectChild("no warning of variables that are some", knownAreNotWarnedOf);
	return expectFailures != 0;
}
