/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stage.h - what the programs of this benchmark measure by
 *
 * Memory that all ranks of one host share. Ranks begin each phase together and note when they are
 * done with it: a phase takes from the moment that the last rank is ready until the last is done.
 */
#ifndef GIN_BENCH_STAGE_H
#define GIN_BENCH_STAGE_H

#include <stdint.h>

#define STAGE_RANKS 1024
#define STAGE_PHASES 16
#define STAGE_POINTS 8

/* What a rank holds; memory in KiB. */
struct stageUse {
	long resident, proportional, descriptors, threads;
};

struct stageShared {
	uint32_t come, turn; /* the gate */
	uint32_t phases, points;
	const char *phase[STAGE_PHASES], *point[STAGE_POINTS]; /* rank 0's */
	uint64_t opened[STAGE_PHASES];			       /* nanoseconds */
	uint64_t done[STAGE_PHASES][STAGE_RANKS];
	struct stageUse use[STAGE_POINTS][STAGE_RANKS];
};

struct stage {
	struct stageShared *shared;
	int rank, nRanks;
	uint32_t phase, point; /* passed by this rank */
};

/* `path` is an empty file, or NULL for memory that children inherit. Ends the process on failure. */
struct stageShared *stageShare(const char *path);

/* Begins a phase, together with all ranks. `name` without blanks, the same on all ranks. */
void stageBegin(struct stage *s, const char *name);
void stageEnd(struct stage *s);

/* Notes what this rank holds now. */
void stageUse(struct stage *s, const char *name);

/*
 * When all ranks are done, rank 0 prints a line for each phase, "time PHASE MICROSECONDS", and two
 * for what is held at each point more than at the one before, by rank 0 and by the other ranks at
 * most: "use POINT root|other RESIDENT PROPORTIONAL DESCRIPTORS THREADS".
 */
void stageReport(struct stage *s);

/* Says `what` and `why`, and ends the process. */
__attribute__((noreturn)) void stageDie(const char *what, const char *why);

#endif
