/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdma.h - what libgin-rdma.so does for libgin.so: mlx5 ports, registered memory, queues for GPUs
 *
 * It knows libibverbs and libmlx5, and neither CUDA nor ranks: memory comes from libgin.so, which
 * also maps doorbell registers for the GPU and carries to the peers what they have to know.
 *
 * Calls return 0, or -1 and a sentence in `why` (RDMA_WHY bytes); of a command that the device
 * refuses the sentence has status and syndrome. Outputs are set on success only. Any thread; calls
 * on one struct rdmaQueues not at the same time. What was made is to be closed before what it was
 * made with; closing works in any state, also when the device is gone.
 *
 * Files of libgin-rdma.so, in nic/: port.c ports, queues.c and path.c queue pairs, memory.c keys and
 * memory for queues, explain.c error sentences, rdma.c the exported struct. Files of libgin.so, in this
 * folder: port.c opens libgin-rdma.so and chooses a rank's port; memory.c allocates queue memory and
 * registers windows; pairs.c makes and connects queue pairs; doorbell.c maps doorbell registers, or
 * rings for the GPU; contexts.c lays out what kernels read; progress.c monitors the queues; gdaki.c is
 * the backend.
 */
#ifndef GIN_BACKENDS_RDMA_H
#define GIN_BACKENDS_RDMA_H

#include <stddef.h>
#include <stdint.h>

#define RDMA_WHY 320 /* a sentence, its end included */
#define RDMA_PAGE 4096

struct rdmaPort;   /* an open port of a device */
struct rdmaRegion; /* memory with keys */
struct rdmaQueues; /* queue pairs that share a slab of memory and some doorbell registers */

/* A port of this machine. */
struct rdmaFound {
	char device[64]; /* "mlx5_0" */
	int port;	 /* from 1 on; 0: no port of the device can be looked at */
	int usable;
	char why[RDMA_WHY]; /* why not; usable: what it is */
};

/* Which port, and how it is used. Zeros, but for gid and device: as libgin chooses. */
struct rdmaWanted {
	const char *device; /* its name */
	int port;
	int gid;      /* index in the port's table; -1: choose */
	uint32_t mtu; /* most bytes in a packet; 0: what the port has */
};

/* What a peer has to know of a port. Travels: of the same layout in every build of a version. */
struct rdmaAddress {
	uint8_t gid[16];
	uint16_t lid;
	uint8_t ethernet;
	uint8_t grh;	  /* a global route header in any case */
	uint8_t mtu;	  /* 1 to 5: 256 to 4096 bytes */
	uint8_t logReads; /* reads and atomics at a time that a queue pair answers */
	uint8_t atomics;  /* enum rdmaAtomics */
	uint8_t reserved;
};

enum rdmaAtomics { rdmaAtomics8 = 1, rdmaAtomicsMasked = 2 /* of 4 and 8 bytes, with masks */ };

/* What a port can do. */
struct rdmaFeatures {
	uint32_t maxDepth; /* of a queue, in WQEBBs */
	uint32_t maxQueues;
	int relaxedOrdering;
	int gid; /* index of the chosen one */
	int roceVersion;
};

/* Memory of this process, or of a GPU. */
struct rdmaMemory {
	void *address;
	size_t bytes;
	int dmabuf; /* a descriptor of it, which stays the caller's and may be closed after; -1: none */
	uint64_t dmabufOffset; /* where the memory begins in it */
};

/* How the NIC was given memory: a message says it. */
enum rdmaVia { rdmaViaDmabuf, rdmaViaAddress };

enum rdmaAccess {
	rdmaLocal = 0,	     /* this rank's source, or where gets go */
	rdmaRemote = 1 << 0, /* peers put, get and do atomics */
	rdmaRelaxed = 1 << 1 /* order among writes is not kept: for data, never for signals */
};

struct rdmaKeys {
	uint32_t local, remote;
	uint64_t first; /* the address, for the NIC, of the memory's first byte: below one page */
	enum rdmaVia via;
};

/* A slab of queues, all alike. It is page-aligned, and of rdmaSlabBytes(). */
struct rdmaSlab {
	struct rdmaMemory memory;
	uint32_t count;	    /* of queues */
	uint32_t depth;	    /* WQEBBs of each: a power of two, RDMA_MIN_DEPTH to RDMA_MAX_DEPTH */
	uint32_t registers; /* doorbell registers wanted, shared by turns; at least 1 */
};

enum { RDMA_MIN_DEPTH = 64, RDMA_MAX_DEPTH = 32768 };

/*
 * Where the parts of queue `i` lie, from the start of the slab. WQEs and completions each begin a
 * page: older firmware wants that.
 */
struct rdmaLayout {
	uint64_t wqes;
	uint64_t cqe;	   /* one; libgin.so sets its state to ginMlx5CqeEmpty() before */
	uint64_t record;   /* struct ginMlx5DoorbellRecord; zero before */
	uint64_t cqRecord; /* which nobody writes, but the device wants one */
};

static inline uint64_t rdmaQueueBytes(uint32_t depth)
{
	return (uint64_t)depth * 64 + RDMA_PAGE;
}

static inline uint64_t rdmaSlabBytes(uint32_t count, uint32_t depth)
{
	return count * rdmaQueueBytes(depth);
}

static inline struct rdmaLayout rdmaLayoutOf(uint32_t i, uint32_t depth)
{
	uint64_t first = i * rdmaQueueBytes(depth), page = first + (uint64_t)depth * 64;

	return (struct rdmaLayout){first, page, page + 64, page + 128};
}

/* One end of a connection. Travels. */
struct rdmaEnd {
	uint32_t number; /* of the queue pair, 24 bits */
	uint32_t packet; /* of its first packet, 24 bits */
};

/* How packets go; the user's. */
struct rdmaPath {
	uint8_t serviceLevel; /* 0 to 15 on InfiniBand, 0 to 7 on Ethernet: its priority */
	uint8_t trafficClass;
	uint8_t timeout;  /* an answer is waited for 4.096 us << timeout; 1 to 31, 0: for ever */
	uint8_t retries;  /* 0 to 7 */
	uint8_t hopLimit; /* of packets with a global header */
};

/* A doorbell register: 8 bytes to store to, and the page it lies in. */
struct rdmaRegister {
	void *at;
	void *page;
	const char *kind; /* "NC_DEDICATED", "NC" or "BF" */
};

enum rdmaState { /* of a queue pair, as the device numbers them */
		 rdmaReset = 0,
		 rdmaInit = 1,
		 rdmaReadyToReceive = 2,
		 rdmaReadyToSend = 3,
		 rdmaError = 6
};

/* What libgin-rdma.so exports, by this name. */
#define RDMA_SYMBOL "ginRdma"

struct rdma {
	size_t size; /* sizeof(struct rdma): that of another libgin is not used */

	/* All ports of this machine, usable or not: how many, of which `room` are in `found`. */
	int (*list)(const struct rdmaWanted *wanted, struct rdmaFound *found, int room, char *why);

	int (*portOpen)(const struct rdmaWanted *wanted, struct rdmaPort **port, char *why);
	void (*portClose)(struct rdmaPort *port);
	void (*portDescribe)(const struct rdmaPort *port, struct rdmaAddress *address,
			     struct rdmaFeatures *features);

	/*
	 * The next event of the device, without waiting: 1 and a sentence, 0 when there is none; `lost`
	 * says whether the device is. Queue pairs made here have none: queueState() says how they are.
	 */
	int (*portEvent)(struct rdmaPort *port, char *text, int *lost);

	/* What a completion with an error says, in words. */
	void (*errorText)(unsigned syndrome, unsigned vendor, char *text);

	/* By dma-buf where there is one, else by address: for GPU memory that takes nvidia-peermem. */
	int (*regionOpen)(struct rdmaPort *port, const struct rdmaMemory *memory, unsigned access,
			  struct rdmaRegion **region, struct rdmaKeys *keys, char *why);
	void (*regionClose)(struct rdmaRegion *region);

	/* Takes the slab and doorbell registers; no queue is made yet. */
	int (*queuesOpen)(struct rdmaPort *port, const struct rdmaSlab *slab,
			  struct rdmaQueues **queues, char *why);
	/* And all queues that were made. No GPU writes them any more. */
	void (*queuesClose)(struct rdmaQueues *queues);

	/* Makes queue `i`; `index` comes back in its completions. `mine` is for the peer. */
	int (*queueMake)(struct rdmaQueues *queues, uint32_t i, uint32_t index,
			 struct rdmaEnd *mine, char *why);
	int (*queueConnect)(struct rdmaQueues *queues, uint32_t i,
			    const struct rdmaAddress *address, const struct rdmaEnd *peer,
			    const struct rdmaPath *path, char *why);
	/* To the error state: what was posted and is not done is flushed. */
	int (*queueFail)(struct rdmaQueues *queues, uint32_t i, char *why);
	/* enum rdmaState, or a number that it has not. */
	int (*queueState)(struct rdmaQueues *queues, uint32_t i, int *state, char *why);
	/* Whose doorbell is where. */
	void (*queueRegister)(const struct rdmaQueues *queues, uint32_t i,
			      struct rdmaRegister *where);
};

#endif
