/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_environ.c - texts of the environment: choices and numbers, host and port, lists of NICs and
 * interfaces, transports, a launcher's rank
 */
#include "fuzz.h"

#include "backends/proxy/network/choice/choice.h"
#include "backends/proxy/network/choice/interface.h"
#include "backends/rdma/port.h"
#include "bootstrap/root.h"
#include "lib/base/param.h"

/* A text of the input, in memory that ends with it. */
static char *anyText(struct fuzzInput *in, size_t most)
{
	struct fuzzInput part = fuzzPart(in, most);
	char *text = malloc(part.left + 1);

	EXPECT(text != NULL);
	memcpy(text, part.at, part.left);
	text[part.left] = '\0';
	return text;
}

static void readParam(enum param param, const char *text)
{
	const struct paramInfo *info = paramInfo(param);
	unsigned value = 12345678;

	if (!paramParse(info, text, &value)) {
		EXPECT(value == 12345678);
		return;
	}
	if (info->isNumber)
		EXPECT((int)value >= info->least && (int)value <= info->most);
	else if (info->choices)
		EXPECT(strstr(info->choices, text) && value < strlen(info->choices));
}

static void readRoot(const char *text)
{
	char host[64], *port = NULL;

	if (tcpSplit(text, host, sizeof(host), &port))
		return;
	EXPECT(port > host && port < host + sizeof(host));
	EXPECT(strlen(host) < sizeof(host) && atoi(port) > 0 && atoi(port) <= UINT16_MAX);
}

static void readTransport(const char *text)
{
	struct transportChoice choice;

	if (networkChoiceRead(text, &choice))
		EXPECT(memchr(choice.name, '\0', sizeof(choice.name)) && !strchr(choice.name, '/'));
}

static void readNics(const char *text)
{
	struct rdmaFound found = {.device = "mlx5_0", .port = 1};

	int allowed = portAllowedByNccl(text, &found);
	EXPECT(*text != '^' || text[1] == '^' || allowed != portAllowedByNccl(text + 1, &found));
	portAllowed(text, &found);
	networkInterfaceAllowed(text, "eth0");
}

static void readLauncher(const char *text, struct fuzzInput *in)
{
	char why[BOOTSTRAP_WHY] = "", job[BOOTSTRAP_JOB], *size = anyText(in, 16);
	int rank = -1, nRanks = -1;

	setenv("RANK", text, 1);
	setenv("WORLD_SIZE", size, 1);
	setenv("TORCHELASTIC_RUN_ID", text, 1);
	if (!launcherRank("auto", &rank, &nRanks, why))
		EXPECT(rank >= 0 && rank < nRanks && nRanks <= ROOT_RANKS);
	else
		EXPECT(why[0] && strlen(why) < sizeof(why));
	launcherJob(job);
	EXPECT(strlen(job) < sizeof(job));
	free(size);
}

static void fuzzOne(struct fuzzInput *in)
{
	uint8_t what = fuzzByte(in), length = fuzzByte(in);
	char *text = anyText(in, what & 128 ? 4096 : length);

	if (what % 8 == 0)
		readRoot(text);
	else if (what % 8 == 1)
		readTransport(text);
	else if (what % 8 == 2)
		readNics(text);
	else if (what % 8 == 3)
		readLauncher(text, in);
	else
		readParam((enum param)((what >> 2) % PARAM_COUNT), text);
	free(text);
}
