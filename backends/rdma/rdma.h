/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdma.h - the calls of libgin-rdma.so: NIC ports, registered memory, queue pairs for GPUs
 *
 * This folder has the code that users of RDMA NICs share; it is no backend and moves no data. The
 * backend gdaki and the proxy's network verbs (backends/proxy/verbs) use it. gdaki takes mlx5 ports
 * only, verbs takes a port of any device with reliable connections: a plain port.
 *
 * libgin-rdma.so links to libibverbs and libmlx5 and knows neither CUDA nor ranks. libgin.so
 * allocates the memory, maps doorbell registers for the GPU, and sends the peers their data.
 *
 * Calls return 0, or -1 and a sentence in `why` (RDMA_WHY bytes). If the device refuses a command,
 * the sentence has its status and syndrome. Outputs are set on success only. Any thread may call;
 * calls on one struct rdmaQueues must not overlap. Close an object before the object that it was
 * made with. Closing works in every state, even when the device has failed.
 *
 * nic/ has the files of libgin-rdma.so: port.c (ports), gid.c (their GIDs), queues.c and path.c
 * (queue pairs), memory.c (keys, umems), explain.c (error sentences), rdma.c (the exported struct).
 * In libgin.so, port.c opens libgin-rdma.so and chooses a rank's port and its settings; memory.c
 * registers memory.
 */
#ifndef GIN_BACKENDS_RDMA_H
#define GIN_BACKENDS_RDMA_H

#include <stddef.h>
#include <stdint.h>

#define RDMA_WHY 320 /* bytes of a sentence with its NUL */
#define RDMA_PAGE 4096

struct rdmaPort;   /* an open port of a device */
struct rdmaRegion; /* memory with keys */
struct rdmaQueues; /* queue pairs in one slab of memory, with some doorbell registers */

/* A port of this machine. */
struct rdmaFound {
	char device[64]; /* "mlx5_0" */
	int port;	 /* 1 or more */
	int usable;
	char why[RDMA_WHY]; /* why not; if usable, a description */
};

/* Which port to open, and how. */
struct rdmaWanted {
	const char *device; /* name */
	int port;	    /* 0: 1 */
	int gid;	    /* index in the port's GID table; -1: choose the best */
	uint32_t mtu;	    /* upper limit in bytes; 0: the port's active MTU */
	int isPlain;	    /* 1: any device; queuesOpen() takes no plain port */
};

/*
 * The data about a port that a peer needs. Ranks exchange it: every build of a version must have
 * one layout.
 */
struct rdmaAddress {
	uint8_t gid[16];
	uint16_t lid;
	uint8_t ethernet;
	uint8_t grh;	     /* 1: the port always needs a global route header */
	uint8_t mtu;	     /* 1 to 5: 256 to 4096 bytes */
	uint8_t logReads;    /* log2 of the READs and atomics that a queue pair answers at a time */
	uint8_t atomics;     /* enum rdmaAtomics */
	uint8_t roceVersion; /* of the GID; 0 on InfiniBand */
	uint16_t partition;  /* of InfiniBand: the upper bit is set for full members */
};

enum rdmaAtomics { rdmaAtomics8 = 1, rdmaAtomicsMasked = 2 /* masked, of 4 and 8 bytes */ };

/* The capabilities of a port. */
struct rdmaFeatures {
	uint32_t maxDepth; /* WQEBBs of a queue */
	uint32_t maxQueues;
	int relaxedOrdering;
	int gid; /* index of the GID in use */
	int roceVersion;
};

/* Memory of this process, or of a GPU. */
struct rdmaMemory {
	void *address;
	size_t bytes;
	int dmabuf; /* file descriptor, which the caller closes after the call; -1: none */
	uint64_t dmabufOffset; /* of the memory in the dma-buf */
};

/* How memory was registered; for messages. */
enum rdmaVia { rdmaViaDmabuf, rdmaViaAddress };

enum rdmaAccess {
	rdmaLocal = 0,	     /* only the local side of puts and gets */
	rdmaRemote = 1 << 0, /* peers may put, get and do atomics */
	rdmaRelaxed = 1 << 1 /* writes may be reordered: for data, never for signals */
};

struct rdmaKeys {
	uint32_t local, remote;
	uint64_t first; /* address of the first byte as the NIC sees it: less than RDMA_PAGE */
	enum rdmaVia via;
};

/* A slab of equal queues: page-aligned memory of rdmaSlabBytes(). */
struct rdmaSlab {
	struct rdmaMemory memory;
	uint32_t count; /* queues */
	uint32_t depth; /* WQEBBs of a queue: a power of two, RDMA_MIN_DEPTH to RDMA_MAX_DEPTH */
	uint32_t registers; /* doorbell registers wanted, 1 at least; shared round robin */
};

enum { RDMA_MIN_DEPTH = 64, RDMA_MAX_DEPTH = 32768 };

/*
 * Offsets of the pieces of queue `i` in the slab. WQEs and completions each begin a page: older
 * firmware requires it.
 */
struct rdmaLayout {
	uint64_t wqes;
	uint64_t cqe;	   /* one entry; ginMlx5CqeEmpty() before queuesOpen() */
	uint64_t record;   /* struct ginMlx5DoorbellRecord; zero before queuesOpen() */
	uint64_t cqRecord; /* the CQ's record: the device requires one, nothing writes it */
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

/* One end of a connection. Ranks exchange it. */
struct rdmaEnd {
	uint32_t number; /* queue pair number, 24 bits */
	uint32_t packet; /* first packet sequence number, 24 bits */
};

/* How packets travel: settings of the user. */
struct rdmaPath {
	uint8_t serviceLevel; /* 0 to 15 on InfiniBand; on Ethernet the priority, 0 to 7 */
	uint8_t trafficClass;
	uint8_t timeout;  /* ACK timeout of 4.096 us << timeout, 1 to 31; 0: infinite */
	uint8_t retries;  /* 0 to 7 */
	uint8_t hopLimit; /* in the global route header */
};

/* A doorbell register: 8 bytes to store to, and the page that contains them. */
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

/* The symbol that libgin-rdma.so exports. */
#define RDMA_SYMBOL "ginRdma"

struct rdma {
	size_t size; /* sizeof(struct rdma); libgin.so rejects a plugin with another size */

	/*
	 * Lists all ports of this machine, usable or not. Returns their number; `found` gets the
	 * first `room` of them.
	 */
	int (*list)(const struct rdmaWanted *wanted, struct rdmaFound *found, int room, char *why);

	int (*portOpen)(const struct rdmaWanted *wanted, struct rdmaPort **port, char *why);
	void (*portClose)(struct rdmaPort *port);
	void (*portDescribe)(const struct rdmaPort *port, struct rdmaAddress *address,
			     struct rdmaFeatures *features);

	/*
	 * Takes the device's next event without waiting: 1 and a sentence, or 0 if there is none.
	 * `lost`: the device has failed. Queue pairs report no events: ask queueState().
	 */
	int (*portEvent)(struct rdmaPort *port, char *text, int *lost);

	/* Describes the syndromes of a completion with error. */
	void (*errorText)(unsigned syndrome, unsigned vendor, char *text);

	/*
	 * Registers by dma-buf if there is one. Otherwise, or if that fails, it registers by
	 * address, which for GPU memory needs nvidia-peermem.
	 */
	int (*regionOpen)(struct rdmaPort *port, const struct rdmaMemory *memory, unsigned access,
			  struct rdmaRegion **region, struct rdmaKeys *keys, char *why);
	void (*regionClose)(struct rdmaRegion *region);

	/*
	 * Registers the slab and allocates doorbell registers. queueMake() then makes the queues.
	 */
	int (*queuesOpen)(struct rdmaPort *port, const struct rdmaSlab *slab,
			  struct rdmaQueues **queues, char *why);
	/* Also destroys the queues that were made. No GPU may use them any more. */
	void (*queuesClose)(struct rdmaQueues *queues);

	/* Makes queue `i`. Its completions have the user index `index`. `mine` goes to the peer. */
	int (*queueMake)(struct rdmaQueues *queues, uint32_t i, uint32_t index,
			 struct rdmaEnd *mine, char *why);
	int (*queueConnect)(struct rdmaQueues *queues, uint32_t i,
			    const struct rdmaAddress *address, const struct rdmaEnd *peer,
			    const struct rdmaPath *path, char *why);
	/* Moves the queue to the error state: WQEs that are not complete are flushed. */
	int (*queueFail)(struct rdmaQueues *queues, uint32_t i, char *why);
	/* `state`: enum rdmaState, or another number of the device. */
	int (*queueState)(struct rdmaQueues *queues, uint32_t i, int *state, char *why);
	/* The doorbell register of queue `i`. */
	void (*queueRegister)(const struct rdmaQueues *queues, uint32_t i,
			      struct rdmaRegister *where);
};

#endif
