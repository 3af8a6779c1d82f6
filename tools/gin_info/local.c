/* SPDX-License-Identifier: BSD-3-Clause */
/* local.c - facts about this process: library, host, launcher, environment, communicator */
#include "gin_info.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#define COPY(to, from) snprintf(to, sizeof(to), "%.*s", (int)sizeof(to) - 1, from)

#define PLUGIN "libgin-pmix.so"

void *openPlugin(const char *file)
{
	static const char *const folders[] = {"/", "/libgin0/"};
	char path[1200];
	Dl_info self;
	const char *slash = NULL;

	if (dladdr((const void *)ginGetVersion, &self) && self.dli_fname)
		slash = strrchr(self.dli_fname, '/');
	for (int i = 0; slash && i < 2; i++) {
		snprintf(path, sizeof(path), "%.*s%s%s", (int)(slash - self.dli_fname),
			 self.dli_fname, folders[i], file);
		if (!access(path, F_OK))
			return dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
	return dlopen(file, RTLD_NOW | RTLD_LOCAL);
}

static void fillBuild(struct buildFacts *b)
{
	Dl_info library;
	int version = 0;

	if (ginGetVersion(&version) == ginSuccess)
		snprintf(b->version, sizeof(b->version), "%d.%d.%d", version / 10000,
			 version / 100 % 100, version % 100);
	snprintf(b->header, sizeof(b->header), "%d.%d.%d", GIN_VERSION_MAJOR, GIN_VERSION_MINOR,
		 GIN_VERSION_PATCH);
	b->abi = GIN_DEVICE_ABI;
	if (dladdr((const void *)ginGetVersion, &library) && library.dli_fname)
		COPY(b->library, library.dli_fname);
#ifdef __clang__
	COPY(b->compiler, __VERSION__);
#else
	COPY(b->compiler, "gcc " __VERSION__);
#endif
	b->pmix = openPlugin(PLUGIN) != NULL;
	COPY(b->pmixWhy, b->pmix ? PLUGIN " found" : dlerror());
}

static uint64_t limitOf(rlim_t limit)
{
	return limit == RLIM_INFINITY ? UINT64_MAX : (uint64_t)limit;
}

static void fillSystem(struct systemFacts *s)
{
	struct utsname name;
	struct rlimit limit;
	struct statvfs shm;

	if (!uname(&name))
		snprintf(s->kernel, sizeof(s->kernel), "%.30s %.50s %.12s", name.sysname,
			 name.release, name.machine);
	if (!getrlimit(RLIMIT_MEMLOCK, &limit))
		s->memlock = limitOf(limit.rlim_cur);
	if (!getrlimit(RLIMIT_NOFILE, &limit)) {
		s->files = limitOf(limit.rlim_cur);
		s->filesHard = limitOf(limit.rlim_max);
	}
	if (!statvfs("/dev/shm", &shm)) {
		s->shm = (uint64_t)shm.f_blocks * shm.f_frsize;
		s->shmFree = (uint64_t)shm.f_bavail * shm.f_frsize;
	}
}

/* Only variables that are equal on all ranks of a job: a rank's number would split the groups. */
const char *const launcherVariables[VARIABLES] = {
	"PMIX_NAMESPACE", "PMIX_VERSION",	  "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
	"SLURM_JOB_ID",	  "SLURM_STEP_NUM_TASKS", "TORCHELASTIC_RUN_ID",  "WORLD_SIZE",
	"TMPDIR",	  "CUDA_VISIBLE_DEVICES"};

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

static void fillLauncher(struct launcherFacts *l)
{
	COPY(l->name, launcherName());
	for (int i = 0; i < VARIABLES; i++) {
		const char *value = getenv(launcherVariables[i]);
		l->isSet[i] = value != NULL;
		COPY(l->value[i], value ? value : "");
	}
}

int launchedRank(void)
{
	static const char *const names[] = {"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID",
					    "PMI_RANK", "RANK"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (getenv(names[i]))
			return atoi(getenv(names[i]));
	return 0;
}

ginParamInfo_t paramRow(int index)
{
	ginParamInfo_t info = GIN_PARAM_INFO_INIT;

	if (ginParamQuery(index, &info) != ginSuccess)
		info.name = info.choices = info.value = info.preset = info.meaning = "";
	return info;
}

static void fillParams(struct paramList *p)
{
	p->count = paramRow(0).count < PARAMS_MOST ? paramRow(0).count : PARAMS_MOST;
	for (int i = 0; i < p->count; i++) {
		ginParamInfo_t row = paramRow(i);
		p->param[i].isSet = row.isSet;
		p->param[i].isBad = row.isBad;
		COPY(p->param[i].value, row.value);
	}
}

static void fillHost(struct hostFacts *s)
{
	struct utsname name;

	if (!uname(&name))
		COPY(s->name, name.nodename);
}

void factsLocal(struct facts *f)
{
	fillBuild(&f->build);
	fillSystem(&f->system);
	fillLauncher(&f->launcher);
	fillParams(&f->params);
	fillHost(&f->host);
}

static const char *bootstrapWhy(const char *bootstrap)
{
	const char *forced = getenv("GIN_BOOTSTRAP");

	if (forced && !strcmp(forced, bootstrap))
		return "GIN_BOOTSTRAP is set";
	if (!strcmp(bootstrap, "pmix"))
		return "PMIX_NAMESPACE is set";
	if (!strcmp(bootstrap, "tcp"))
		return "GIN_ROOT is set";
	return "no launcher's variable gives more than one rank";
}

static void fillBackends(ginComm_t comm, int count, struct backendList *b)
{
	b->count = count < BACKENDS_MOST ? count : BACKENDS_MOST;
	for (int i = 0; i < b->count; i++) {
		ginBackendInfo_t info = GIN_BACKEND_INFO_INIT;
		if (ginCommQueryBackend(comm, i, &info) != ginSuccess)
			continue;
		b->backend[i].usable = info.usable;
		COPY(b->backend[i].name, info.name);
		COPY(b->backend[i].why, info.why);
	}
}

static int leaderOf(ginComm_t comm, int rank)
{
	for (int peer = 0; peer < rank; peer++) {
		ginPeerInfo_t info = GIN_PEER_INFO_INIT;
		if (ginCommQueryPeer(comm, peer, &info) == ginSuccess && info.sameHost)
			return peer;
	}
	return rank;
}

void factsOfComm(ginComm_t comm, struct facts *f)
{
	ginCommInfo_t info = GIN_COMM_INFO_INIT;

	if (ginCommQuery(comm, &info) != ginSuccess)
		return;
	COPY(f->launcher.bootstrap, info.bootstrap);
	COPY(f->launcher.why, bootstrapWhy(info.bootstrap));
	fillBackends(comm, info.backends, &f->backends);
	f->host.leader = leaderOf(comm, info.rank);
	COPY(f->host.name, info.host);
	f->device.ordinal = info.device;
	COPY(f->device.name, info.deviceName);
}
