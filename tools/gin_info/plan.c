/* SPDX-License-Identifier: BSD-3-Clause */
/* plan.c - gin_info --plan: what a rank takes, by ginPlanQuery(); rows and keys: gin_info(1) */
#include "gin_info.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { ROUTES_MOST = 8 };

/* An option with a number. */
struct planOption {
	const char *name;
	uint32_t *value;
};

static struct {
	uint32_t ranks;
	ginDevCommRequirements_t want;
	ginPlanInfo_t info[ROUTES_MOST];
	int count;
} plan = {.want = GIN_DEV_COMM_REQUIREMENTS_INIT};

static const struct planOption planOptions[] = {
	{"--ranks", &plan.ranks},
	{"--contexts", &plan.want.contexts},
	{"--depth", &plan.want.queueDepth},
	{"--signals", &plan.want.signals},
	{"--counters", &plan.want.counters},
	{"--barriers", &plan.want.barriers},
};

int planOption(const char *option, const char *value)
{
	char *rest = NULL;

	for (size_t i = 0; i < sizeof(planOptions) / sizeof(planOptions[0]); i++) {
		if (strcmp(option, planOptions[i].name))
			continue;
		errno = 0;
		unsigned long number =
			value && *value >= '0' && *value <= '9' ? strtoul(value, &rest, 10) : 0;
		if (!rest || *rest || errno || number > INT32_MAX) {
			fprintf(stderr, "gin_info: %s%s%s: must be a number, at most %d\n", option,
				value ? " " : "", value ? value : "", INT32_MAX);
			return -1;
		}
		*planOptions[i].value = (uint32_t)number;
		return 1;
	}
	return 0;
}

/* A line of the table, and a member of the JSON document. */
struct planRow {
	const char *title, *key;
	size_t offset; /* of a uint64_t in ginPlanInfo_t, or in ginPlanPhase_t */
	int isBytes;
};

static const struct planRow phaseRows[] = {
	{"messages", "messages", offsetof(ginPlanPhase_t, messages), 0},
	{"received", "receivedBytes", offsetof(ginPlanPhase_t, received), 1},
	{"relayed by rank 0", "relayedBytes", offsetof(ginPlanPhase_t, relayed), 1},
	{"NIC regions", "regions", offsetof(ginPlanPhase_t, regions), 0},
	{"heap", "heapBytes", offsetof(ginPlanPhase_t, heap), 1},
	{"pinned memory", "pinnedBytes", offsetof(ginPlanPhase_t, pinned), 1},
	{"GPU memory", "deviceBytes", offsetof(ginPlanPhase_t, device), 1},
};

static const struct planRow wholeRows[] = {
	{"queue pairs", "queuePairs", offsetof(ginPlanInfo_t, queuePairs), 0},
	{"network addresses", "addresses", offsetof(ginPlanInfo_t, addresses), 0},
};

static const struct {
	const char *title, *key;
	size_t offset;
} phases[] = {
	{"ginCommInit", "init", offsetof(ginPlanInfo_t, init)},
	{"ginDevCommCreate", "create", offsetof(ginPlanInfo_t, create)},
	{"ginWindowRegister", "window", offsetof(ginPlanInfo_t, window)},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static uint64_t valueAt(const ginPlanInfo_t *info, size_t offset)
{
	uint64_t value;

	memcpy(&value, (const char *)info + offset, sizeof(value));
	return value;
}

static void printValue(uint64_t value, int isBytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	double size = (double)value;
	char text[32];
	int unit = 0;

	for (; size >= 1024 && unit < 4; unit++)
		size /= 1024;
	if (isBytes)
		snprintf(text, sizeof(text), "%.*f %s", unit != 0, size, units[unit]);
	else
		snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	printf("  %14s", text);
}

static void printRow(const struct planRow *row, size_t base)
{
	printf("  %-18s", row->title);
	for (int i = 0; i < plan.count; i++)
		printValue(valueAt(&plan.info[i], base + row->offset), row->isBytes);
	putchar('\n');
}

/* A name such as "proxy, network" has two lines. */
static void printNames(void)
{
	for (int line = 0; line < 2; line++) {
		printf("%-20s", line ? "" : "every pair by");
		for (int i = 0; i < plan.count; i++) {
			const char *name = plan.info[i].route, *comma = strchr(name, ',');
			int first = comma ? (int)(comma - name) : (int)strlen(name);
			printf("  %14.*s", line ? 14 : first,
			       !line   ? name
			       : comma ? comma + 2
				       : "");
		}
		putchar('\n');
	}
}

static void printTable(void)
{
	printf("Each rank of %u, every pair on one route; %u contexts, queues of %u, %u signals, "
	       "%u "
	       "counters,\n%u barriers. Control plane: %d connections at most.\n\n",
	       plan.ranks, plan.want.contexts, plan.want.queueDepth, plan.want.signals,
	       plan.want.counters, plan.want.barriers, plan.info[0].links);
	printNames();
	for (size_t i = 0; i < COUNT(wholeRows); i++)
		printRow(&wholeRows[i], 0);
	for (size_t p = 0; p < COUNT(phases); p++) {
		printf("%s\n", phases[p].title);
		for (size_t i = 0; i < COUNT(phaseRows); i++)
			printRow(&phaseRows[i], phases[p].offset);
	}
}

static void printMember(const struct planRow *row, const ginPlanInfo_t *info, size_t base)
{
	printf(", \"%s\": %llu", row->key, (unsigned long long)valueAt(info, base + row->offset));
}

static void printRouteJson(const ginPlanInfo_t *info)
{
	printf("    {\"route\": \"%s\"", info->route);
	for (size_t i = 0; i < COUNT(wholeRows); i++)
		printMember(&wholeRows[i], info, 0);
	for (size_t p = 0; p < COUNT(phases); p++) {
		printf(",\n     \"%s\": {\"call\": \"%s\"", phases[p].key, phases[p].title);
		for (size_t i = 0; i < COUNT(phaseRows); i++)
			printMember(&phaseRows[i], info, phases[p].offset);
		putchar('}');
	}
	putchar('}');
}

static void printPlanJson(void)
{
	printf("{\n  \"ranks\": %u, \"contexts\": %u, \"depth\": %u, \"signals\": %u, "
	       "\"counters\": "
	       "%u, \"barriers\": %u,\n  \"connections\": %d,\n  \"routes\": [\n",
	       plan.ranks, plan.want.contexts, plan.want.queueDepth, plan.want.signals,
	       plan.want.counters, plan.want.barriers, plan.info[0].links);
	for (int i = 0; i < plan.count; i++) {
		printRouteJson(&plan.info[i]);
		printf("%s\n", i + 1 < plan.count ? "," : "");
	}
	printf("  ]\n}\n");
}

int printPlan(int json)
{
	int count = 1;

	if (!plan.ranks) {
		fprintf(stderr, "gin_info: --plan needs --ranks N, with N from 1\n");
		return 2;
	}
	for (; plan.count < count && plan.count < ROUTES_MOST; plan.count++) {
		ginPlanInfo_t *info = &plan.info[plan.count];
		*info = (ginPlanInfo_t)GIN_PLAN_INFO_INIT;
		if (ginPlanQuery(plan.count, (int)plan.ranks, &plan.want, info) != ginSuccess) {
			fprintf(stderr, "gin_info: %s\n", ginGetLastError());
			return 2;
		}
		count = info->count;
	}
	(json ? printPlanJson : printTable)();
	return 0;
}
