/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gin_info.h - what gin_info finds out, and how ranks bring it together
 *
 * Each rank fills a struct facts. Its sections have fixed sizes and zeroes where nothing stands, so
 * that those of two ranks can be compared as bytes; rank 0 prints equal ones once.
 *
 * Files: gin_info.c the program, local.c, topology.c and gdaki.c
 * one rank's facts, merge.c those of all, text.c (with table.c) and json.c
 * printing.
 */
#ifndef GIN_TOOLS_GIN_INFO_H
#define GIN_TOOLS_GIN_INFO_H

#include <gin.h>

#include <stdio.h>

enum { GPUS_MOST = 16, NICS_MOST = 32, BACKENDS_MOST = 8, PARAMS_MOST = 32, VARIABLES = 10 };

struct build {
	char version[16]; /* of the library that is loaded */
	char header[16];  /* of the header that gin_info was compiled against */
	int abi;
	char library[160]; /* its file */
	char compiler[48];
	int pmix; /* libgin-pmix.so can be loaded */
	char pmixWhy[200];
};

struct system {
	char kernel[96];
	int cores, cpus, numaNodes; /* 0: not known */
	uint64_t memory;
	uint64_t memlock, files, filesHard; /* limits; UINT64_MAX: none */
	uint64_t shm;
	uint64_t shmFree; /* changes while one looks: not compared */
};

struct gpu {
	int usable, domain, numaNode, major, minor;
	uint64_t memory;
	char name[96];
	char bus[32];
	char cpus[48]; /* nearest */
	char why[160];
};

struct gpus {
	int count; /* that there are; at most GPUS_MOST are kept */
	int driver;
	char module[32]; /* version of the kernel's module */
	char why[160];	 /* why there are none */
	struct gpu gpu[GPUS_MOST];
};

enum distance { distanceUnknown, distanceSwitch, distanceNuma, distanceOther };

/* A port of an RDMA NIC, or a network interface. */
struct nic {
	int rdma, port;
	char name[24];
	char state[16];
	char link[16];
	char rate[32];
	int numaNode;
	int gdaki;	    /* GPU threads can post to it */
	char gdakiWhy[320]; /* what it is to them, or why they cannot; "": libgin does not say */
	uint8_t distance[GPUS_MOST]; /* enum distance of each GPU */
};

struct nics {
	int count, rdma;
	char why[96];	     /* why there is no RDMA NIC */
	char gdakiWhy[320];  /* why libgin sees none */
	char gpuMemory[160]; /* how NICs reach it, for all that the driver says */
	char doorbell[160];  /* whether GPUs may write NICs' registers */
	struct nic nic[NICS_MOST];
};

struct launcher {
	char name[32];
	char bootstrap[16]; /* "" without a communicator */
	char why[96];
	char value[VARIABLES][80]; /* of launcherVariables[] */
	uint8_t isSet[VARIABLES];
};

extern const char *const launcherVariables[VARIABLES];

struct backends {
	int count;
	struct {
		int usable;
		char name[16];
		char why[160];
	} backend[BACKENDS_MOST];
};

struct param {
	int isSet, isBad;
	char value[160];
};

struct params {
	int count;
	struct param param[PARAMS_MOST];
};

/* Where the rank runs, and on what. */
struct self {
	int leader; /* lowest rank of its host */
	char host[64];
};

struct device {
	int ordinal; /* GIN_DEVICE_NONE without a GPU */
	char name[96];
};

struct facts {
	struct build build;
	struct system system;
	struct gpus gpus;
	struct nics nics;
	struct launcher launcher;
	struct backends backends;
	struct params params;
	struct self self;
	struct device device;
};

/* A way between two ranks. */
struct reason {
	char backend[16];
	char why[160];
};

/* All ranks' facts, at rank 0; one rank's own when there is no communicator. */
struct report {
	const char *error; /* why there is no communicator; NULL: there is */
	int n, hosts;
	struct facts *facts;	/* [n] */
	struct reason *reasons; /* all that occur */
	int reasonCount;
	uint16_t *matrix; /* [n][n]: which of the reasons; NULL without a communicator */
};

/* local.c, topology.c, gdaki.c: what this process sees. */
void factsLocal(struct facts *f);
void factsTopology(struct facts *f);
void factsGdaki(struct facts *f); /* of the GPUs and NICs that are in it */

/* What stands before /sys and /proc: "". */
const char *factsRoot(void);
void factsOfComm(ginComm_t comm, struct facts *f);
int launcherRank(void);

/*
 * merge.c: collective; 0, or 1 when the communicator or memory failed. Every rank frees
 * the report.
 */
int reportGather(ginComm_t comm, const struct facts *mine, struct report *report);
void reportFree(struct report *report);

/* of[r] is the lowest rank whose `bytes` bytes at `offset` of its facts are those of rank r. */
int *reportGroups(const struct report *report, size_t offset, size_t bytes);

/* "rank 3", "ranks 0-3,8"; of a long list its beginning. `in` has a byte for each of n. */
const char *listText(const char *noun, const uint8_t *in, int n, char *out, size_t bytes);

/* The members of a group: "ranks 0-3". */
const char *groupRanks(const struct report *report, const int *of, int first, char *out,
		       size_t bytes);

/* And where they run: "ranks 0-3 on host a". */
const char *groupText(const struct report *report, const int *of, int first, char *out,
		      size_t bytes);

/* "among ranks 0-3; ranks 0-3 to ranks 4-7": the pairs that have the reason. */
void pairsText(const struct report *report, int reason, FILE *out);

/* Pairs that use the backend. */
long pairsOf(const struct report *report, const char *backend);

/* What is printed of a row of the table of variables. */
ginParamInfo_t paramRow(int index);

void printText(const struct report *report, int onlyEnv);
void printJson(const struct report *report, int onlyEnv);

const char *distanceWords(enum distance distance);

#endif
