/* SPDX-License-Identifier: BSD-3-Clause */
/* local.c - facts about this process: library, host, launcher, communicator, environment */
#include "gin_info.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "bootstrap/bootstrap.h"

#define PLUGIN "libgin-pmix.so"

/* The path of libgin.so, or "". */
static const char *libraryPath(void)
{
	Dl_info library;
	int isKnown = dladdr((const void *)ginGetVersion, &library) && library.dli_fname;

	return isKnown ? library.dli_fname : "";
}

void *openPlugin(const char *file)
{
	static const char *const folders[] = {"/", "/libgin0/"};
	char path[1200];
	const char *library = libraryPath(), *slash = strrchr(library, '/');

	for (int i = 0; slash && i < 2; i++) {
		snprintf(path, sizeof(path), "%.*s%s%s", (int)(slash - library), library,
			 folders[i], file);
		if (!access(path, F_OK))
			return dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
	return dlopen(file, RTLD_NOW | RTLD_LOCAL);
}

const char *versionText(int version, char out[32])
{
	snprintf(out, 32, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
	return out;
}

void libginFacts(FILE *t)
{
	char library[32], header[32];
	int version = 0, hasPmix = openPlugin(PLUGIN) != NULL;
	const char *pmixWhy = hasPmix ? PLUGIN " found" : dlerror();

	ginGetVersion(&version);
	versionText(version, library);
	versionText(GIN_VERSION, header);
	addLine(t, "version", "%s, device ABI %d%s%s", library, GIN_DEVICE_ABI,
		version != GIN_VERSION ? "; gin_info was compiled against " : "",
		version != GIN_VERSION ? header : "");
	addString(t, "", "version", library);
	addString(t, "", "header", header);
	addNumber(t, "deviceAbi", 1, GIN_DEVICE_ABI);
	addString(t, "library", "library", libraryPath());
#ifdef __clang__
	addString(t, "compiler", "compiler", __VERSION__);
#else
	add(t, nodeString, "compiler", "compiler", "gcc %s", __VERSION__);
#endif
	addFlag(t, "pmix", hasPmix);
	addString(t, "PMIx plug-in", "pmixWhy", pmixWhy);
	nodeEnd(t);
}

const char *sizeText(uint64_t bytes, char out[32])
{
	if (bytes == UINT64_MAX)
		snprintf(out, 32, "unlimited");
	else if (bytes >= 1u << 30)
		snprintf(out, 32, "%.1f GiB", (double)bytes / (1u << 30));
	else if (bytes >= 1u << 20)
		snprintf(out, 32, "%.1f MiB", (double)bytes / (1u << 20));
	else
		snprintf(out, 32, "%.1f KiB", (double)bytes / 1024);
	return out;
}

static const char *countText(uint64_t count, char out[32])
{
	snprintf(out, 32, count == UINT64_MAX ? "unlimited" : "%llu", (unsigned long long)count);
	return out;
}

static const char *orUnknown(int count, char out[16])
{
	snprintf(out, 16, count ? "%d" : "unknown", count);
	return out;
}

static void limitFacts(FILE *t)
{
	struct rlimit memory = {0}, files = {0};
	char a[32], b[32];

	getrlimit(RLIMIT_MEMLOCK, &memory);
	getrlimit(RLIMIT_NOFILE, &files);
	addLine(t, "locked memory", "at most %s", sizeText(memory.rlim_cur, a));
	addLine(t, "open files", "at most %s, hard limit %s", countText(files.rlim_cur, a),
		countText(files.rlim_max, b));
	addNumber(t, "memlockBytes", memory.rlim_cur != RLIM_INFINITY, memory.rlim_cur);
	addNumber(t, "openFiles", files.rlim_cur != RLIM_INFINITY, files.rlim_cur);
	addNumber(t, "openFilesHard", files.rlim_max != RLIM_INFINITY, files.rlim_max);
}

_Static_assert(RLIM_INFINITY == UINT64_MAX, "no limit is UINT64_MAX in sizeText() and countText()");

void systemFacts(FILE *t, int cores, int cpus, int numaNodes)
{
	/* hwloc's sum over NUMA nodes may lack memory that was added to a running machine. */
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	struct utsname name = {0};
	struct statvfs shm = {0};
	char a[32], b[32], words[3][16];

	uname(&name);
	statvfs("/dev/shm", &shm);
	uint64_t shmBytes = (uint64_t)shm.f_blocks * shm.f_frsize;
	uint64_t shmFree = (uint64_t)shm.f_bavail * shm.f_frsize;
	add(t, nodeString, "kernel", "kernel", "%s %s %s", name.sysname, name.release,
	    name.machine);
	addLine(t, "processors", "cores %s, hardware threads %s, NUMA nodes %s",
		orUnknown(cores, words[0]), orUnknown(cpus, words[1]),
		orUnknown(numaNodes, words[2]));
	addLine(t, "memory", "%s", sizeText(memory, a));
	addNumber(t, "cores", cores, (uint64_t)cores);
	addNumber(t, "cpus", cpus, (uint64_t)cpus);
	addNumber(t, "numaNodes", numaNodes, (uint64_t)numaNodes);
	addNumber(t, "memoryBytes", 1, memory);
	add(t, nodeChanging, "", "", "%s", "");
	addLine(t, "/dev/shm", shmBytes ? "%s, %s free" : "none", sizeText(shmBytes, a),
		sizeText(shmFree, b));
	limitFacts(t);
	addNumber(t, "shmBytes", 1, shmBytes);
	add(t, nodeChanging, "", "", "%s", "");
	addNumber(t, "shmFreeBytes", 1, shmFree);
	nodeEnd(t);
}

static const char *launcherName(void)
{
	static const char *const marks[][2] = {{"OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun"},
					       {"SLURM_STEP_NUM_TASKS", "srun"},
					       {"TORCHELASTIC_RUN_ID", "torchrun"},
					       {"PMI_SIZE", "a PMI launcher"},
					       {"PMIX_NAMESPACE", "a PMIx launcher"},
					       {"WORLD_SIZE", "WORLD_SIZE by hand"}};

	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		if (getenv(marks[i][0]))
			return marks[i][1];
	return "none";
}

int launchedRank(void)
{
	const char *forced = getenv("GIN_BOOTSTRAP"), *pmix = getenv("PMIX_RANK");
	char why[BOOTSTRAP_WHY];
	int rank, nRanks;

	if (!launcherRank(forced ? forced : "", &rank, &nRanks, why))
		return rank;
	return pmix && getenv("PMIX_NAMESPACE") ? atoi(pmix) : 0;
}

static const char *bootstrapWhy(const char *bootstrap)
{
	const char *forced = getenv("GIN_BOOTSTRAP");

	if (!*bootstrap)
		return "";
	if (forced && !strcmp(forced, bootstrap))
		return "GIN_BOOTSTRAP is set";
	if (!strcmp(bootstrap, "pmix"))
		return "PMIX_NAMESPACE is set";
	if (!strcmp(bootstrap, "tcp"))
		return "GIN_ROOT is set";
	return "no launcher's variable gives more than one rank";
}

/* `bootstrap` is "" without a communicator. */
static void launcherFacts(FILE *t, const char *bootstrap)
{
	/*
	 * Variables that are equal on all ranks of a job: a rank's number would split the groups.
	 */
	static const char *const variables[] = {
		"PMIX_NAMESPACE",      "PMIX_VERSION",	       "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
		"SLURM_JOB_ID",	       "SLURM_STEP_NUM_TASKS", "TORCHELASTIC_RUN_ID",  "WORLD_SIZE",
		"CUDA_VISIBLE_DEVICES"};
	const char *why = bootstrapWhy(bootstrap), *label = "variables";

	addString(t, "launcher", "name", launcherName());
	if (*bootstrap)
		addLine(t, "bootstrap", "%s: %s", bootstrap, why);
	addOptional(t, "", "bootstrap", bootstrap);
	addOptional(t, "", "why", why);
	bracket(t, nodeObject, "variables");
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		const char *value = getenv(variables[i]);
		if (!value)
			continue;
		addLine(t, label, "%s=%s", variables[i], value);
		addString(t, "", variables[i], value);
		label = " ";
	}
	bracket(t, nodeObjectEnd, "");
	nodeEnd(t);
}

ginParamInfo_t paramRow(int index)
{
	ginParamInfo_t info = GIN_PARAM_INFO_INIT;

	if (ginParamQuery(index, &info) != ginSuccess)
		info.name = info.choices = info.value = info.preset = info.meaning = "";
	return info;
}

int leaderOf(ginComm_t comm, int rank)
{
	ginPeerInfo_t info = GIN_PEER_INFO_INIT;

	for (int peer = 0; peer < rank; peer++)
		if (ginCommQueryPeer(comm, peer, &info) == ginSuccess && info.sameHost)
			return peer;
	return rank;
}

/* The report prints the words of a host and of a device. */
static void hostFacts(FILE *t, const char *name, int leader)
{
	addString(t, "", "name", name);
	add(t, nodeLine, "", "words", "%s", name);
	add(t, nodeLine, "", "leader", "%d", leader); /* hosts may have equal names */
	nodeEnd(t);
}

static void deviceFacts(FILE *t, const ginCommInfo_t *info)
{
	if (info->device < 0)
		add(t, nodeLine, "", "words", "%s", info->deviceName);
	else
		add(t, nodeLine, "", "words", "GPU %d, %s", info->device, info->deviceName);
	addNumber(t, "ordinal", info->device >= 0, (uint64_t)info->device);
	addString(t, "", "name", info->deviceName);
}

static void backendFacts(FILE *t, ginComm_t comm, int count, const struct report *report)
{
	bracket(t, nodeArray, "backends");
	for (int i = 0; i < count; i++) {
		ginBackendInfo_t info = GIN_BACKEND_INFO_INIT;
		ginCommQueryBackend(comm, i, &info);
		bracket(t, nodeObject, "");
		if (info.usable)
			addLine(t, info.name, "usable; %ld of %ld pairs of ranks",
				pairsOf(report, info.name), (long)report->n * report->n);
		else
			addLine(t, info.name, "not usable: %s", info.why);
		addString(t, "", "name", info.name);
		addFlag(t, "usable", info.usable);
		addOptional(t, "", "why", info.why);
		bracket(t, nodeObjectEnd, "");
	}
	bracket(t, nodeArrayEnd, "");
}

void factsOfComm(FILE *t, ginComm_t comm, const struct report *report)
{
	ginCommInfo_t info = GIN_COMM_INFO_INIT;
	struct utsname name = {0};
	int hasComm = comm && ginCommQuery(comm, &info) == ginSuccess;

	uname(&name);
	hostFacts(t, hasComm ? info.host : name.nodename, hasComm ? leaderOf(comm, info.rank) : 0);
	launcherFacts(t, info.bootstrap);
	if (hasComm)
		deviceFacts(t, &info);
	nodeEnd(t);
	if (hasComm)
		backendFacts(t, comm, info.backends, report);
	nodeEnd(t);
	for (int i = 0; i < paramRow(0).count; i++) {
		ginParamInfo_t row = paramRow(i);
		addString(t, "", "value", row.value);
		addFlag(t, "isSet", row.isSet);
		addFlag(t, "isBad", row.isBad);
		nodeEnd(t);
	}
}
