/* SPDX-License-Identifier: BSD-3-Clause */
/* param.c - the environment variables */
#include "param.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "info.h"
#include "log.h"

static const struct paramInfo table[PARAM_COUNT] = {
	[paramAttach] = {.name = "GIN_ATTACH",
			 .choices = "on|off",
			 .preset = "on",
			 .meaning = "answers gin_info --attach of this user: what the kernels of "
				    "the process wait for"},
	[paramBackend] = {.name = "GIN_BACKEND",
			  .choices = paramBackendChoices,
			  .preset = "auto",
			  .meaning = "what moves data between ranks that are not direct peers"},
	[paramBootstrap] = {.name = "GIN_BOOTSTRAP",
			    .choices = "auto|pmix|tcp|self",
			    .preset = "auto",
			    .meaning = "how the ranks find each other"},
	[paramBounce] = {.name = "GIN_BOUNCE",
			 .choices = "auto|always|never",
			 .preset = "auto",
			 .meaning =
				 "pinned host memory between the proxy's network and memory that "
				 "the network does not reach; always: for host memory too"},
	[paramBouncePool] = {.name = "GIN_BOUNCE_POOL",
			     .isNumber = 1,
			     .least = 1,
			     .most = 1000000000,
			     .preset = "16777216",
			     .meaning = "most bytes of pinned host memory of each proxy thread for "
					"GIN_BOUNCE"},
	[paramBounceSlot] = {.name = "GIN_BOUNCE_SLOT",
			     .isNumber = 1,
			     .least = 16,
			     .most = 1000000000,
			     .preset = "262144",
			     .meaning = "most bytes of one slot in that memory: longer puts and "
					"gets go in parts"},
	[paramCopyEngine] = {.name = "GIN_COPY_ENGINE",
			     .choices = "auto|on|off",
			     .preset = "auto",
			     .meaning = "copy engines for long puts and gets between direct "
					"peers; auto: where the communicator has a proxy"},
	[paramCopyEngineBytes] = {.name = "GIN_COPY_ENGINE_BYTES",
				  .isNumber = 1,
				  .least = 1,
				  .most = 1000000000,
				  .preset = "262144",
				  .meaning = "puts and gets by one thread use a copy engine from "
					     "this many bytes on, unless their options choose"},
	[paramGdakiDoorbells] = {.name = "GIN_GDAKI_DOORBELLS",
				 .isNumber = 1,
				 .least = 1,
				 .most = 4096,
				 .preset = "16",
				 .meaning = "most doorbell registers of the NIC that the queues of "
					    "a device communicator share"},
	[paramGdakiQueues] = {.name = "GIN_GDAKI_QUEUES",
			      .choices = "gpu|host",
			      .preset = "gpu",
			      .meaning = "whose memory holds the NIC's queues"},
	[paramHostId] = {.name = "GIN_HOSTID",
			 .preset = "",
			 .meaning = "ranks with equal text count as ranks of one host; default: "
				    "the kernel decides"},
	[paramLog] = {.name = "GIN_LOG",
		      .choices = "none|error|warn|info|stats|debug",
		      .preset = "warn",
		      .meaning = "what is written to standard error, or to GIN_LOG_FILE"},
	[paramLogFile] = {.name = "GIN_LOG_FILE",
			  .preset = "",
			  .meaning = "a file for these messages; in its name %h is the host, %r "
				     "the rank, %p the process, %% a %"},
	[paramNic] = {.name = "GIN_NIC",
		      .preset = "",
		      .meaning = "NIC ports that may be used, for example "
				 "mlx5_0,mlx5_2:1; default: those that NCCL_IB_HCA allows, else "
				 "all"},
	[paramNicGid] = {.name = "GIN_NIC_GID",
			 .preset = "",
			 .meaning = "index in the GID table of the NIC port; "
				    "default: the best of this network namespace, RoCE v2 and IPv4 "
				    "first"},
	[paramNicRails] = {.name = "GIN_NIC_RAILS",
			   .isNumber = 1,
			   .least = 1,
			   .most = 4,
			   .preset = "1",
			   .meaning = "how many NIC ports the proxy of a rank uses by verbs; its "
				      "threads take them in turn"},
	[paramNicRetries] = {.name = "GIN_NIC_RETRIES",
			     .isNumber = 1,
			     .most = 7,
			     .preset = "7",
			     .meaning = "how often a NIC repeats a packet that is not answered"},
	[paramNicSl] = {.name = "GIN_NIC_SL",
			.isNumber = 1,
			.most = 15,
			.preset = "0",
			.meaning = "service level of the NIC's packets; on "
				   "Ethernet the priority, at most 7"},
	[paramNicTc] = {.name = "GIN_NIC_TC",
			.isNumber = 1,
			.most = 255,
			.preset = "0",
			.meaning = "traffic class of the NIC's packets; its upper 6 bits are the "
				   "DSCP"},
	[paramNicTimeout] = {.name = "GIN_NIC_TIMEOUT",
			     .isNumber = 1,
			     .least = 1,
			     .most = 31,
			     .preset = "18",
			     .meaning = "a NIC waits 4.096 us * 2^number for an answer before it "
					"repeats a packet; 18: 1.07 s"},
	[paramOfiInterface] = {.name = "GIN_OFI_INTERFACE",
			       .preset = "",
			       .meaning =
				       "network interface or NIC of the proxy's network, by "
				       "libfabric; default: as NCCL_SOCKET_IFNAME says, else one "
				       "of the control plane"},
	[paramOfiProvider] = {.name = "GIN_OFI_PROVIDER",
			      .preset = "",
			      .meaning = "provider of libfabric for the proxy's network; default: "
					 "the first of net and tcp that works"},
	[paramProxyAffinity] = {.name = "GIN_PROXY_AFFINITY",
				.choices = "near|cpu|none",
				.preset = "near",
				.meaning = "the CPUs that the proxy's threads use: those near the "
					   "GPU, one of these each, or all"},
	[paramProxyFence] = {.name = "GIN_PROXY_FENCE",
			     .choices = "auto|system",
			     .preset = "auto",
			     .meaning = "scope in which a put by the proxy releases its source; "
					"auto: the GPU where that is enough"},
	[paramProxyThreads] = {.name = "GIN_PROXY_THREADS",
			       .isNumber = 1,
			       .most = 64,
			       .preset = "1",
			       .meaning = "CPU threads of each communicator that move data for "
					  "kernels; 0: the program calls ginCommProgress()"},
	[paramRoot] = {.name = "GIN_ROOT",
		       .preset = "",
		       .meaning = "host:port where rank 0 listens, for the "
				  "bootstrap tcp"},
	[paramRoute] = {.name = "GIN_ROUTE",
			.choices = "auto|direct|network",
			.preset = "auto",
			.meaning = "routes that may be chosen; network: no direct route, not even "
				   "to the own rank"},
	[paramSecret] =
		{.name = "GIN_SECRET",
		 .preset = "",
		 .isSecret = 1,
		 .meaning =
			 "long random text, equal on all ranks; a process without it cannot join"},
	[paramSelftest] = {.name = "GIN_SELFTEST",
			   .isNumber = 1,
			   .least = 0,
			   .most = 1,
			   .preset = "0",
			   .meaning = "1: ginCommInit tests the route of each pair of ranks and "
				      "fails if one is broken"},
	[paramSocketIfname] = {.name = "GIN_SOCKET_IFNAME",
			       .preset = "",
			       .meaning = "network interface of the control plane; default: all "
					  "that are up"},
	[paramTimeout] = {.name = "GIN_TIMEOUT",
			  .isNumber = 1,
			  .least = 1,
			  .most = 1000000000,
			  .preset = "600",
			  .meaning = "seconds after which a collective call fails"},
	[paramTrace] = {.name = "GIN_TRACE",
			.preset = "",
			.meaning = "a file for records of the calls of kernels that are compiled "
				   "with -DGIN_TRACE; %h, %r, %p and %% as in GIN_LOG_FILE; see "
				   "gin_trace(1)"},
	[paramTraceEvery] = {.name = "GIN_TRACE_EVERY",
			     .isNumber = 1,
			     .least = 1,
			     .most = 1u << 30,
			     .preset = "1",
			     .meaning = "one of so many calls of a device communicator is "
					"recorded; rounded up to a power of two"},
	[paramTraceRecords] = {.name = "GIN_TRACE_RECORDS",
			       .isNumber = 1,
			       .least = 16,
			       .most = 16777216,
			       .preset = "65536",
			       .meaning = "records of a device communicator, 64 bytes each, that "
					  "wait to be written to the file; further ones are "
					  "dropped and counted"},
	[paramTransport] =
		{.name = "GIN_TRANSPORT",
		 .preset = "",
		 .meaning = "how the proxy reaches other ranks, the preferred way first: "
			    "ipc, shared memory of one host; a network, which is verbs, ofi "
			    "or NAME, the plug-in libgin-NAME.so; or both with a comma; "
			    "default: ipc, and for pairs that have no other route verbs if "
			    "all ranks have a NIC, else ofi"},
	[paramUarMap] = {.name = "GIN_UAR_MAP",
			 .choices = "io|plain|cpu",
			 .preset = "io",
			 .meaning = "how doorbell registers of a NIC are mapped "
				    "for the GPU; plain: as ordinary memory; cpu: "
				    "not at all"},
	[paramWaitWarn] = {.name = "GIN_WAIT_WARN",
			   .isNumber = 1,
			   .most = 86400,
			   .preset = "10",
			   .meaning = "seconds after which the log names a call of a kernel that "
				      "still waits, or a rank to which no post completes; 0: "
				      "never"},
};

static struct {
	const char *text;
	unsigned value; /* index of the choice, or number */
	int set;	/* the environment has it */
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

int paramParse(const struct paramInfo *info, const char *text, unsigned *value)
{
	if (info->choices) {
		int index = choiceIndex(info->choices, text);
		if (index < 0)
			return 0;
		*value = (unsigned)index;
	} else if (info->isNumber) {
		char *end;
		long number = strtol(text, &end, 10);
		if (*end || end == text || number < info->least || number > info->most)
			return 0;
		*value = (unsigned)number;
	}
	return 1;
}

static void readAll(void)
{
	for (int p = 0; p < PARAM_COUNT; p++) {
		const char *text = getenv(table[p].name);
		values[p].set = text && *text;
		if (!values[p].set)
			text = table[p].preset;
		values[p].text = strdup(text);
		values[p].bad = !values[p].text || !paramParse(&table[p], text, &values[p].value);
		if (values[p].bad)
			paramParse(&table[p], table[p].preset, &values[p].value);
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

/* The value as text, for messages and reports. */
static const char *paramShown(enum param param)
{
	return table[param].isSecret && *paramText(param) ? "(set)" : paramText(param);
}

/* libgin-ep and gin_ep read the variables GIN_EP_.... */
static int known(const char *entry)
{
	if (!strncmp(entry, "GIN_EP_", 7))
		return 1;
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

static ginResult_t failBad(enum param param)
{
	const struct paramInfo *info = &table[param];

	if (info->choices)
		return fail(ginErrorInvalidArgument, "%s=%s: must be %s", info->name,
			    paramShown(param), info->choices);
	return fail(ginErrorInvalidArgument, "%s=%s: must be a number from %d to %d", info->name,
		    paramShown(param), info->least, info->most);
}

ginResult_t paramCheck(void)
{
	pthread_once(&once, readAll);
	pthread_once(&warned, warnUnknown);
	for (int p = 0; p < PARAM_COUNT; p++)
		if (values[p].bad)
			return failBad(p);
	return ginSuccess;
}

ginResult_t ginParamQuery(int index, ginParamInfo_t *info)
{
	ginParamInfo_t filled = GIN_PARAM_INFO_INIT;

	errorScope("ginParamQuery", -1);
	if (index < 0 || index >= PARAM_COUNT)
		return fail(ginErrorInvalidArgument, "index is %d: must be 0 to %d", index,
			    PARAM_COUNT - 1);
	const struct paramInfo *row = &table[index];
	filled.count = PARAM_COUNT;
	filled.value = paramShown(index);
	filled.isSet = values[index].set;
	filled.isBad = values[index].bad;
	filled.name = row->name;
	filled.choices = row->choices ? row->choices : row->isNumber ? "number" : "text";
	filled.preset = row->preset;
	filled.meaning = row->meaning;
	return infoGive(&filled, sizeof(filled), "GIN_PARAM_INFO_INIT", info);
}
