/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gin_info.h - what gin_info finds out on each rank, and the report on all ranks
 *
 * Each rank fills in a struct facts. Sections have fixed sizes, and unused bytes are 0, so memcmp()
 * tells whether a section differs between two ranks. Rank 0 prints equal sections once.
 *
 * gin_info.c    the program
 * local.c       facts about this process and its host
 * topology.c    facts about CPUs, GPUs and NICs
 * gdaki.c       facts about the gdaki backend: NIC ports and the NVIDIA driver's settings
 * merge.c       gathers and groups the facts of all ranks
 * text.c        prints the report as text, with table.c
 * json.c        prints the report as JSON
 */
#ifndef GIN_TOOLS_GIN_INFO_H
#define GIN_TOOLS_GIN_INFO_H

#include <gin.h>

#include <stdio.h>

enum { GPUS_MOST = 16, NICS_MOST = 32, BACKENDS_MOST = 8, PARAMS_MOST = 32, VARIABLES = 10 };

struct buildFacts {
	char version[16]; /* of the loaded libgin.so */
	char header[16];  /* of the gin.h that gin_info was compiled with */
	int abi;
	char library[160]; /* path of libgin.so */
	char compiler[48];
	int pmix; /* libgin-pmix.so can be loaded */
	char pmixWhy[200];
};

struct systemFacts {
	char kernel[96];
	int cores, cpus, numaNodes; /* 0: unknown */
	uint64_t memory;
	uint64_t memlock, files, filesHard; /* limits; UINT64_MAX: no limit */
	uint64_t shm;
	uint64_t shmFree; /* the last member: changes all the time, so it is not compared */
};

struct gpuFacts {
	int usable, domain, numaNode, major, minor;
	uint64_t memory;
	char name[96];
	char bus[32];
	char cpus[48]; /* NUMA-local hardware threads */
	char why[160]; /* why libgin cannot use it */
};

struct gpuList {
	int count; /* may exceed GPUS_MOST; only the first GPUS_MOST are stored */
	int driver;
	char module[32]; /* version of the driver's kernel module */
	char why[160];	 /* why there is no GPU */
	struct gpuFacts gpu[GPUS_MOST];
};

enum gpuDistance { distanceUnknown, distanceSwitch, distanceNuma, distanceOther };

/* A port of an RDMA NIC, or a network interface. */
struct nicFacts {
	int rdma, port;
	char name[24];
	char state[16];
	char link[16];
	char rate[32];
	int numaNode;
	int gdaki;	    /* GPU threads can post to the port */
	char gdakiWhy[320]; /* properties of the port, or why it is not usable; "": unknown */
	uint8_t distance[GPUS_MOST]; /* enum gpuDistance to each GPU */
};

struct nicList {
	int count, rdma;
	char why[96];	     /* why there is no RDMA NIC */
	char gdakiWhy[320];  /* why libgin sees no port */
	char gpuMemory[160]; /* how NICs reach GPU memory, by the driver's files */
	char doorbell[160];  /* whether GPUs may write doorbells, by the driver's files */
	struct nicFacts nic[NICS_MOST];
};

struct launcherFacts {
	char name[32];
	char bootstrap[16]; /* "" without a communicator */
	char why[96];
	char value[VARIABLES][80]; /* of launcherVariables[] */
	uint8_t isSet[VARIABLES];
};

extern const char *const launcherVariables[VARIABLES];

struct backendList {
	int count;
	struct {
		int usable;
		char name[16];
		char why[160];
	} backend[BACKENDS_MOST];
};

struct paramFacts {
	int isSet, isBad;
	char value[160];
};

struct paramList {
	int count;
	struct paramFacts param[PARAMS_MOST];
};

struct hostFacts {
	int leader; /* lowest rank of the host */
	char name[64];
};

struct deviceFacts {
	int ordinal; /* GIN_DEVICE_NONE without a GPU */
	char name[96];
};

struct facts {
	struct buildFacts build;
	struct systemFacts system;
	struct gpuList gpus;
	struct nicList nics;
	struct launcherFacts launcher;
	struct backendList backends;
	struct paramList params;
	struct hostFacts host;
	struct deviceFacts device;
};

/* Backend of the route between two ranks ("none": no route), and why. */
struct routeReason {
	char backend[16];
	char why[160];
};

/* What rank 0 knows of all ranks; without a communicator, what this rank knows of itself. */
struct report {
	const char *error; /* why there is no communicator; NULL: there is one */
	int n, hosts;
	struct facts *facts;	     /* [n] */
	struct routeReason *reasons; /* all different ones */
	int reasonCount;
	uint16_t *matrix; /* [n][n]: see routeAt(); NULL without a communicator */
};

/* The index, in report->reasons, of the route between two ranks. */
static inline uint16_t *routeAt(const struct report *report, int from, int to)
{
	return &report->matrix[(size_t)from * (size_t)report->n + (size_t)to];
}

/* Each fills in a part of the facts of this process. */
void factsLocal(struct facts *f);
void factsTopology(struct facts *f);
void factsGdaki(struct facts *f); /* after f->gpus and f->nics were filled in */
void factsOfComm(ginComm_t comm, struct facts *f);

/* Prefix of /sys and /proc: "", or HWLOC_FSROOT in tests. */
const char *factsRoot(void);

/*
 * Opens a plug-in as libgin does: in the folder of libgin.so, in its subfolder libgin0, else where
 * the dynamic loader looks. NULL: see dlerror().
 */
void *openPlugin(const char *file);

/* The rank that the launcher gave this process, or 0. */
int launchedRank(void);

/*
 * Collective: fills in the report on rank 0, which alone needs that much memory; on other ranks the
 * numbers only. Returns 0, or 1 when the communicator failed or there is no memory. The caller calls
 * reportFree() in both cases.
 */
int reportGather(ginComm_t comm, const struct facts *mine, struct report *report);
void reportFree(struct report *report);

/*
 * Groups ranks that have equal facts, from byte `offset` to byte `offset` + `bytes`. of[r] is the
 * lowest rank of the group of rank r. The caller frees the array. NULL: no memory.
 */
int *reportGroups(const struct report *report, size_t offset, size_t bytes);

/* Writes "rank 3" or "ranks 0-3,8", say; cuts a long list. in[i] is 1 for each member i of n. */
const char *listText(const char *noun, const uint8_t *in, int n, char *out, size_t bytes);

/* The members of a group: "ranks 0-3". */
const char *groupRanks(const struct report *report, const int *of, int first, char *out,
		       size_t bytes);

/* The members of a group and their hosts: "ranks 0-3 on host a". */
const char *groupText(const struct report *report, const int *of, int first, char *out,
		      size_t bytes);

/* Prints the pairs that have the reason: "among ranks 0-3; ranks 0-3 to ranks 4-7". */
void pairsText(const struct report *report, int reason, FILE *out);

/* Number of pairs that use the backend. */
long pairsOf(const struct report *report, const char *backend);

/* Row `index` of the library's table of environment variables. */
ginParamInfo_t paramRow(int index);

void printText(const struct report *report, int onlyEnv);

/* plan.c: takes an option of --plan: 1, 0 if it is none, or -1 after a message. */
int planOption(const char *option, const char *value);
/* Returns the exit status. */
int printPlan(int json);

void printJson(const struct report *report, int onlyEnv);

const char *distanceWords(enum gpuDistance distance);

#endif
