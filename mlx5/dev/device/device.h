/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.h - a process's state of the modelled devices: objects by number, queue pairs, completion
 * queues, and the one lock over all of it
 *
 * Every function of the model runs under deviceLock(), except where its header says otherwise.
 */
#ifndef MLX5DEV_DEVICE_H
#define MLX5DEV_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct packet;

enum { DEVICES_MAX = 8, WQEBB = 64, SEGMENT = 16, CQE_BYTES = 64, WQE_MAX = 1024, EQN = 5 };

enum kind { KIND_PD, KIND_MR, KIND_UMEM, KIND_UAR, KIND_CQ, KIND_SRQ, KIND_QP, KIND_AH, KINDS };

/* Of a PD, MR, UMEM, UAR, CQ, SRQ, QP: first in its struct. */
struct object {
	struct object *next;
	struct device *device;
	enum kind kind;
	uint32_t id;	 /* the device's number: pdn, key, umem id, page, cqn, srqn, qpn */
	uint32_t handle; /* uverbs' number */
	int context;	 /* the file descriptor it was made through */
	int users;	 /* objects that refer to this one: it cannot go before them */
	bool destroyed;	 /* a queue pair is kept, for the sake of the sentence about its use */
	bool isDevx;
};

struct pd {
	struct object object;
};

struct ah {
	struct object object;
};

/* Where completion queues tell of an entry. */
struct channel {
	bool isOpen;
	int fd, program; /* the end we write to, and the one the program reads */
};

struct mr {
	struct object object;
	struct pd *pd;
	uint32_t key;
	uint64_t address, iova, length;
	uint32_t access; /* IBV_ACCESS_ */
	void *mapped;	 /* dma-buf: its mapping, or NULL */
	size_t mappedBytes;
};

struct umem {
	struct object object;
	uint64_t address, length;
	void *mapped;
	size_t mappedBytes;
};

struct uar {
	struct object object;
	uint32_t index; /* page of the doorbell memory */
};

enum cqe_kind { CQE_REQUEST = 0, CQE_WRITE_IMM = 1, CQE_SEND = 2, CQE_SEND_IMM = 3 };
enum { CQE_REQUEST_ERROR = 13, CQE_RESPONSE_ERROR = 14 };

/* A completion on its way. */
struct completion {
	struct completion *next;
	struct qp *qp;
	uint8_t opcode, syndrome, wqeOpcode;
	uint16_t counter;
	uint32_t bytes, immediate;
	uint32_t freed; /* send queue slots before this index are free with it */
	bool requester;
	uint64_t due; /* ns, for an adversary */
};

struct cq {
	struct object object;
	struct object *memory, *record; /* umems, for DEVX */
	struct channel *channel;
	uint64_t userHandle;
	uint64_t buffer, dbr;
	uint32_t cqes, producer;
	uint32_t events;  /* that its channel had */
	uint32_t request; /* for one, as the record had it last */
	bool collapsed, ignoreOverrun, armed;
};

/* A shared receive queue: a ring of entries, each of which names the entry that is taken next. */
struct srq {
	struct object object;
	struct pd *pd;
	uint64_t userHandle;
	uint64_t buffer, dbr;
	uint32_t entries, shift; /* an entry has 1 << shift bytes */
	uint32_t next;		 /* the entry that the next message takes */
	uint32_t taken;		 /* entries since the queue was made; wraps around */
	uint32_t limit;		 /* with fewer entries left there is an event; 0: none */
	uint32_t events;	 /* asynchronous ones */
};

/* The receive that a message goes to. */
struct receive {
	bool isTaken;
	uint16_t index;
	uint64_t buffers; /* the address of the entry's first data segment */
	uint32_t count;	  /* of data segments */
};

enum qp_state { QP_RESET = 0, QP_INIT = 1, QP_RTR = 2, QP_RTS = 3, QP_ERROR = 6 };

enum { IN_FLIGHT = 64, LATE_MAX = 256, LATE_BYTES = 256, SINKS = 30, QPC_BYTES = 232 };

/* Where a response goes. */
struct sink {
	uint64_t address;
	uint32_t bytes, key;
};

/* A work request that is fetched and has no completion yet. */
struct request {
	uint32_t index, wqebbs, bytes, sequence;
	uint8_t opcode, syndrome, operandBytes;
	bool signaled, done, responds; /* responds: counts in readsInFlight */
	uint8_t sinkCount;
	struct sink sinks[SINKS];
};

/* Data that the device has written and that is not in memory yet. */
struct late_piece {
	uint64_t address;
	uint32_t bytes;
	bool gpus; /* it is in memory of a GPU */
	uint8_t data[LATE_BYTES];
};

/* Attributes on which the two sides of a connection agree. */
struct path {
	int device; /* -1: no device is there */
	uint32_t qpn;
	bool readable, writable, atomic;
	uint8_t atomicMode, mtu, messageLog, ackTimeout, retries, rnrRetries, minRnrTimer;
	uint32_t readsOut, readsIn; /* at most */
	uint32_t sendPsn, receivePsn;
};

struct qp {
	struct object object;
	struct pd *pd;
	struct cq *sendCq, *receiveCq;
	struct srq *srq;   /* or NULL */
	bool isUnreliable; /* UC: no answers, and messages may be lost */
	struct object *memory, *record, *uar;
	uint64_t userHandle;
	uint32_t userIndex;
	uint32_t events; /* asynchronous ones */
	enum qp_state state;
	uint64_t sq, rq, dbr;
	uint32_t wqebbs, receives, receiveShift;
	uint32_t cap[5];	    /* as verbs asked */
	uint8_t context[QPC_BYTES]; /* fields that commands have set, as in a mailbox */
	struct path path;

	/* requester; indices are of WQEBBs and do not wrap */
	uint32_t rung, fetched, freed, sequence;
	uint32_t started; /* work requests, for faults */
	uint32_t doorbellRegister;
	struct request inFlight[IN_FLIGHT];
	uint32_t oldest, newest, readsInFlight;
	bool failing; /* a request failed that is not the oldest: none is started after it */
	uint64_t readyAt;

	/* responder */
	struct packet *inbound, **inboundEnd;
	uint64_t stalledSince;
	uint32_t received; /* entries of its own queue that messages have taken */
	struct receive receive;
	struct late_piece *late;
	uint32_t lateCount;

	/* engine */
	struct qp *nextQp, *nextRunnable;
	bool runnable;
	uint64_t wakeAt;
};

struct device {
	int index;
	bool removed, portDown;
	struct object *objects[KINDS][256];
	struct qp *qps; /* that are not destroyed */
};

extern struct device devices[DEVICES_MAX];

/* This process, from deviceStart() on: getpid() is a call of the kernel. */
extern int devicePid;

void deviceLock(void);
void deviceUnlock(void);

/*
 * The first use in this process: options, fabric, wire, doorbell pages, thread. Without the lock.
 */
void deviceStart(void);

/* Nanoseconds since some time. */
uint64_t deviceClock(void);

/* Stops the clock: no delay ends. Or lets it go on. */
void deviceClockStop(bool stop);

void objectAdd(struct object *object, struct device *device, enum kind kind, uint32_t id,
	       int context);
void *objectFind(struct device *device, enum kind kind, uint32_t id);
void *objectByHandle(int context, enum kind kind, uint32_t handle);
void objectRemove(struct object *object);
/* Everything made through that descriptor, the newest first. */
void objectsOfContext(int context, void (*visit)(struct object *object));

#endif
