/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stage.h - measures phases of a job: time, and resources of each rank
 *
 * The ranks of one host share memory. They begin each phase together, and each rank stores the time
 * when it has finished the phase. A phase lasts from the moment when the last rank is ready to
 * begin until the last rank has finished.
 */
#ifndef GIN_BENCH_STAGE_H
#define GIN_BENCH_STAGE_H

#include <stdint.h>

#define STAGE_RANKS 1024
#define STAGE_PHASES 16
#define STAGE_POINTS 8

/* Resources of a rank; memory in KiB. */
struct stageUse {
	long resident, proportional, descriptors, threads;
};

struct stageShared {
	uint32_t come, turn; /* the barrier */
	uint32_t phases, points;
	const char *phase[STAGE_PHASES], *point[STAGE_POINTS]; /* rank 0's pointers */
	uint64_t opened[STAGE_PHASES];			       /* nanoseconds */
	uint64_t done[STAGE_PHASES][STAGE_RANKS];
	struct stageUse use[STAGE_POINTS][STAGE_RANKS];
};

struct stage {
	struct stageShared *shared;
	int rank, nRanks;
	uint32_t phase, point; /* how many this rank has passed */
};

/* Maps an empty file or, if `path` is NULL, memory that children inherit. Exits on failure. */
struct stageShared *stageShare(const char *path);

/* Begins a phase together with all ranks, which pass the same name; a name has no blanks. */
void stageBegin(struct stage *s, const char *name);
void stageEnd(struct stage *s);

/* Stores the resources that this rank uses at this point. */
void stageUse(struct stage *s, const char *name);

/*
 * Waits for all ranks. Then rank 0 prints for each phase "time PHASE MICROSECONDS", and for each
 * point "use POINT root|other RESIDENT PROPORTIONAL DESCRIPTORS THREADS": how much was added since
 * the point before, by rank 0 (root), and at most by one of the other ranks (other).
 */
void stageReport(struct stage *s);

/* Prints `what` and `why`, and ends the process. */
__attribute__((noreturn)) void stageDie(const char *what, const char *why);

#endif
