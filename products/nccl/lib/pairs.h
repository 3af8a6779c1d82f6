/* SPDX-License-Identifier: BSD-3-Clause */
/* pairs.h - the calls of ncclSend and ncclRecv of a group on one communicator */
#ifndef GIN_NCCL_PAIRS_H
#define GIN_NCCL_PAIRS_H

struct ncclPairCall {
	void *buffer;
	size_t bytes; /* not 0 */
	int peer, isSend;
	void *stream;
};

struct ncclPairs {
	size_t count;
	struct ncclPairCall *call;
	size_t sendBytes, receiveBytes; /* of all calls */
	void *stream;			/* of the first call, also of one without data */
};

void ncclPairsFree(struct ncclPairs *p);

/*
 * collective.c: this rank has no memory for a gather. The others do not wait for it: a wrong call
 * of one rank fails on all.
 */
ncclResult_t ncclCannotMeet(ginComm_t gin);

/*
 * Collective. `in` has the data of the sends one after the other; `out` gets the data of the
 * receives likewise.
 */
ncclResult_t ncclPairsExchange(ginComm_t gin, int rank, int nRanks, const struct ncclPairs *p,
			       const char *in, char *out);

/* The exchange between the buffers of the calls themselves, without a GPU. */
ncclResult_t ncclPairsOnHost(ncclComm_t comm, const struct ncclPairs *p);

/* Enqueues the copies of the sends (`isSend`) to `at`, or of the receives from it. */
int ncclPairsCopy(const struct ncclDriver *cuda, const struct ncclPairs *p, int isSend, char *at,
		  void *stream);

/*
 * Calls of a group may be on several streams: the job's stream waits for the others' earlier work
 * (`before`), or the others wait for `event`, the end of the job.
 */
int ncclPairsJoin(const struct ncclDriver *cuda, const struct ncclPairs *p, void *event,
		  int before);

#endif
