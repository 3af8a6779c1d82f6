/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gin_info.h - the report of gin_info: a tree of facts, and its two printers
 *
 * Each rank writes its facts into a tree, section by section. Rank 0 gathers the trees of all ranks
 * and merges them into the tree of the report, which has a section once for each group of ranks
 * whose sections are equal. The tree is printed as text or as JSON.
 *
 * gin_info.c         the program
 * tree.c             writes, reads and compares trees
 * text.c, json.c     print trees
 * local.c            facts about this process and its host
 * topology.c         facts about CPUs, GPUs and NICs
 * merge.c            gathers the trees of all ranks, and groups ranks with equal sections
 * routes.c           gathers the routes between all pairs of ranks, describes pairs in few words
 * report.c           the tree of the report
 * selftest*.c        --selftest, see selftest.h
 * plan.c             --plan
 */
#ifndef GIN_TOOLS_GIN_INFO_H
#define GIN_TOOLS_GIN_INFO_H

#include <gin.h>

#include <stdio.h>

/*
 * A tree is a string of nodes in the order in which they are printed. Brackets enclose the members
 * of an object and the elements of an array. A byte of 0 ends a section. Trees have no pointers:
 * ranks send them as they are.
 */
enum nodeKind {
	nodeString = 's',   /* a JSON string */
	nodeOptional = 'o', /* a JSON string, or null if it is empty */
	nodeLiteral = 'n',  /* a JSON number, true, false or null, or an array on one line */
	nodeObject = '{',
	nodeArray = '[',
	nodeObjectEnd = '}',
	nodeArrayEnd = ']',
	nodeChanging = '~', /* the next node changes all the time: nodesEqual() ignores its value */
	/* Text only. */
	nodeLine = 't',
	nodeTable = '(', /* the nodes with labels up to the table's end are cells */
	nodeTableEnd = ')',
	nodeHeading = 'h',
	nodeGroup = 'g', /* the words stand above the lines of a group */
	nodeRaw = 'r'	 /* printed as it is */
};

struct node {
	enum nodeKind kind;
	const char *label; /* of a line (" ": below another), or of a column; "": not in the text */
	const char *key;   /* of a member of a JSON object; "" in arrays */
	const char *value; /* in the text, an empty value is "-" */
};

/* Appends a node to a tree. */
void add(FILE *t, enum nodeKind kind, const char *label, const char *key, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/* Append a nodeString, a nodeOptional, a nodeLine. */
void addString(FILE *t, const char *label, const char *key, const char *value);
void addOptional(FILE *t, const char *label, const char *key, const char *value);
void addLine(FILE *t, const char *label, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Append nodes that are in JSON only. `isKnown` 0: the number is null. */
void addNumber(FILE *t, const char *key, int isKnown, uint64_t value);
void addFlag(FILE *t, const char *key, int value);
void bracket(FILE *t, enum nodeKind kind, const char *key);

/* The value is what the caller writes in between. nodeEnd() also ends a section. */
void nodeStart(FILE *t, enum nodeKind kind, const char *label, const char *key);
void nodeEnd(FILE *t);

/* Reads a node of a section; returns the next one's place, or NULL at the end of the section. */
const char *nodeRead(const char *at, struct node *node);

/* The end of the section that starts at `at`. */
const char *nodesEnd(const char *at);

/* The value of the section's first node with this label or key; "" if there is none. */
const char *nodeFind(const char *section, const char *name);

int nodesEqual(const char *a, const char *b);

/* A tree in memory. The program ends with a message when there is no memory. */
struct tree {
	FILE *out;
	char *bytes; /* after fflush(out), as size */
	size_t size;
};

void treeOpen(struct tree *tree);
void treeFree(struct tree *tree);

/* Appends the nodes of a tree to `t`, and frees the tree. */
void treeMove(struct tree *from, FILE *t);

/* Prints the nodes and empties the tree. A document may be printed in parts. */
void treePrint(struct tree *tree, int asJson);

/* Print nodes up to the end of a section. Lines of the text have at most 100 columns. */
void printText(const char *at);
void printJson(const char *at);

/* The sections of a rank's tree. Each environment variable has a section, from sectionParams. */
enum section {
	sectionLibgin,
	sectionSystem,
	sectionGpus,
	sectionNics,
	sectionHost,
	sectionLauncher,
	sectionDevice,
	sectionBackends,
	sectionParams
};

/* Backend of the route between two ranks ("none": no route), and why. */
struct routeReason {
	char backend[16];
	char why[160];
	long pairs; /* of ranks that have the reason */
};

/* What rank 0 knows of all ranks; without a communicator, what this rank knows of itself. */
struct report {
	const char *error; /* why there is no communicator; NULL: there is one */
	int n, hosts, sections;
	char *trees;		     /* of all ranks */
	const char **section;	     /* [n][sections] */
	struct routeReason *reasons; /* all different ones */
	int reasonCount;
	uint16_t *matrix; /* [n][n]: see routeAt(); NULL without a communicator */
};

static inline const char *sectionOf(const struct report *report, int rank, int section)
{
	return report->section[(size_t)rank * (size_t)report->sections + (size_t)section];
}

/* The index, in report->reasons, of the route between two ranks. */
static inline uint16_t *routeAt(const struct report *report, int from, int to)
{
	return &report->matrix[(size_t)from * (size_t)report->n + (size_t)to];
}

/* Append the sections of this process: up to sectionNics, and the others. */
void factsOfMachine(FILE *t);
void factsOfComm(FILE *t, ginComm_t comm, const struct report *report); /* `comm` may be NULL */

/* Append a section each. A count of 0 is unknown. */
void libginFacts(FILE *t);
void systemFacts(FILE *t, int cores, int cpus, int numaNodes);

/* "0.1.0" */
const char *versionText(int version, char out[32]);

/* "1.5 GiB" */
const char *sizeText(uint64_t bytes, char out[32]);

/*
 * Opens a plug-in as libgin does: in the folder of libgin.so, in its subfolder libgin0, otherwise
 * where the dynamic loader looks. NULL: see dlerror().
 */
void *openPlugin(const char *file);

/*
 * The rank that the launcher gave this process. 0 also where variables contradict each other, as
 * the library compares them: each process is then to print its error.
 */
int launchedRank(void);

/* The lowest rank of the host of `rank`, which is the calling rank. */
int leaderOf(ginComm_t comm, int rank);

/* Row `index` of the library's table of environment variables. */
ginParamInfo_t paramRow(int index);

/* Collective: `bytes` bytes of each rank, which the caller frees. NULL: failure. */
void *gatherAll(ginComm_t comm, int n, const void *mine, size_t bytes);

/*
 * Collective: gathers `bytes` bytes of each rank into `all`; NULL: they are not kept. In parts,
 * since all ranks hold a part of all ranks.
 */
ginResult_t gatherRows(ginComm_t comm, int n, const void *mine, char *all, size_t bytes);

/* Collective: fills in the trees of the report on rank 0, which alone needs that much memory. */
ginResult_t treesGather(ginComm_t comm, struct tree *mine, struct report *report);

/* Without a communicator: a report of one rank. */
ginResult_t treesAlone(struct tree *mine, struct report *report);

void reportFree(struct report *report);

/*
 * Groups ranks that have equal sections. of[r] is the lowest rank of the group of rank r. The
 * caller frees the array. NULL: no memory.
 */
int *reportGroups(const struct report *report, int section);

/* Writes "rank 3" or "ranks 0-3,8", say; cuts a long list. in[i] is 1 for each member i of n. */
const char *listText(const char *noun, const uint8_t *in, int n, char *out, size_t bytes);

/* The members of a group: "ranks 0-3". */
const char *groupRanks(const struct report *report, const int *of, int first, char *out,
		       size_t bytes);

/* The members of a group and their hosts: "ranks 0-3 on host a". */
const char *groupText(const struct report *report, const int *of, int first, char *out,
		      size_t bytes);

/* Collective: fills in the reasons on all ranks, and the matrix on rank 0. */
ginResult_t routesGather(ginComm_t comm, struct report *report);

/* Number of pairs that use the backend. */
long pairsOf(const struct report *report, const char *backend);

/* Prints the pairs that have the reason: "among ranks 0-3; ranks 0-3 to ranks 4-7". */
void pairsText(const struct report *report, int reason, FILE *out);

/*
 * attach.c: prints what a process and its peers have posted and wait for, or the numbers alone for
 * Prometheus. Returns the exit status.
 */
int attachPrint(int pid, int asMetrics);

void reportPrint(const struct report *report, int onlyEnv, int asJson);

/* plan.c: takes an option of --plan: 1, 0 if it is none, or -1 after a message. */
int planOption(const char *option, const char *value);
/* Returns the exit status. */
int printPlan(int json);

#endif
