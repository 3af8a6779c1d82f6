/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric.h - the calls of a plug-in that moves bytes between processes over a network
 *
 * A plug-in knows its network library, but neither CUDA nor ranks nor the contents of messages.
 * GIN_TRANSPORT names it: verbs is in libgin-rdma.so, any other NAME in libgin-NAME.so. It exports
 * one struct, `ginFabric`. Calls return fabricOk; or fabricFailed and, where there is `why`
 * (FABRIC_WHY bytes), a sentence. Outputs are set on success only.
 *
 * A fabric has endpoints (struct fabricEnd). Calls on one endpoint do not overlap; all other calls
 * may come from any thread. Writes, reads and messages are reliable: each arrives once or more, or
 * the operation fails. They may arrive in any order, except on an ordered fabric: there a message
 * from one endpoint to another arrives after the data of all writes and after all messages that
 * were sent before it, and does not arrive when one of these has failed. An immediate is a number
 * of 32 bits that travels with a write; it arrives as a message does, after the data of its write.
 */
#ifndef GIN_PROXY_FABRIC_H
#define GIN_PROXY_FABRIC_H

#include <stddef.h>
#include <stdint.h>

#define FABRIC_WHY 160
#define FABRIC_ADDRESS 256 /* bytes of an endpoint's address */
#define FABRIC_MESSAGE 80  /* most bytes of a message */
#define FABRIC_SYMBOL "ginFabric"

enum fabricResult { fabricFailed = -1, fabricOk = 0, fabricBusy = 1 };

struct fabric;
struct fabricEnd;
struct fabricRegion;
struct rdmaMemory;
struct rdmaWanted;
struct rdmaPath;

/* Requests of the user and of the ranks' hosts. "" where anything will do. */
struct fabricWanted {
	const char *provider;
	const char *interface;	      /* the network interface or NIC */
	const char *address;	      /* of this host, in text, which peers reach */
	const struct rdmaWanted *nic; /* verbs: the port; NULL: another network */
	const struct rdmaPath *path;  /* verbs: settings of packets; NULL: another network */
	uint32_t peers;		      /* that an endpoint is connected to, about */
	uint8_t hasGpu;		      /* gpuMemoryAdd() will be called */
	uint8_t isRail;		      /* this rank and its peers also use other NICs: see write() */
};

/* The network that a process finds; two processes with equal kinds can talk. */
struct fabricAbout {
	char name[32];	    /* for reports */
	char provider[16];  /* for open(), as fabricWanted.provider */
	char interface[16]; /* for reports; "": as wanted */
	uint32_t speed;	    /* Mb/s; 0: not known */
	uint64_t kind;
	uint64_t id;	    /* of this process or rank, for reaches() */
	uint64_t mostBytes; /* of one write or read */
	uint8_t ordered;
	uint8_t immediates;	  /* a write can have an immediate */
	uint8_t hasStrangers;	  /* any process that reaches an endpoint can send to it */
	uint8_t pairBytes;	  /* bytes of pairOpen(); 0: it is NULL */
	uint8_t registersSources; /* every `local` of write() and read() needs memoryAdd() */
};

/* The name of memory for peers. */
struct fabricKey {
	uint64_t address; /* of the first byte */
	uint64_t key;
};

/* A write or a read. `local` stays as it is until the operation is done. */
struct fabricPiece {
	char *local;
	uint64_t bytes;
	struct fabricKey remote;
	/*
	 * Of a write on an ordered fabric: a message to the peer follows, so that the write may be
	 * done when `local` may change.
	 */
	uint8_t isCovered;
};

/* Bytes of a value that need no memoryAdd(): it is copied. */
#define FABRIC_VALUE 32

enum fabricEventKind {
	fabricDone,
	fabricMessage,
	fabricImmediate,
	fabricLost,   /* nothing reaches `peer` any more, or a message to it has failed */
	fabricNotice, /* `why`, for the log */
	fabricDown    /* the NIC of this process has failed, and nothing works any more: `why` */
};

struct fabricEvent {
	enum fabricEventKind kind;
	int error;	 /* fabricDone: 0, or the operation has failed */
	void *context;	 /* fabricDone: of the operation */
	uint64_t peer;	 /* fabricLost; fabricImmediate: its sender */
	const char *why; /* a sentence, until the next call on the endpoint; NULL: none */
	uint32_t immediate;
	uint32_t bytes;
	unsigned char message[FABRIC_MESSAGE];
};

struct fabricCalls {
	size_t size;
	uint8_t pollsSlowly; /* poll() takes a system call */

	/*
	 * Tries the network before it reports it, by data and a message from this process to
	 * itself.
	 */
	int (*probe)(const struct fabricWanted *want, struct fabricAbout *about, char *why);
	/* May two ranks with these ids talk? NULL: all may. */
	int (*reaches)(uint64_t mine, uint64_t theirs);

	int (*open)(const struct fabricWanted *want, struct fabric **out, char *why);
	void (*close)(struct fabric *fabric);

	/* `address`: FABRIC_ADDRESS bytes for peers. Closing forgets every operation. */
	int (*endOpen)(struct fabric *fabric, struct fabricEnd **out, void *address, char *why);
	void (*endClose)(struct fabricEnd *end);
	/* Before any traffic. `peer` names the other endpoint. */
	int (*connect)(struct fabricEnd *end, const void *address, uint64_t *peer, char *why);

	/*
	 * If fabricAbout.pairBytes is not 0: before connect(), makes the objects of this endpoint
	 * for one peer. `pair`: pairBytes for that peer alone. pairConnect() is then called instead
	 * of connect(): `theirs` is the `pair` that the peer's pairOpen() wrote for this endpoint.
	 */
	int (*pairOpen)(struct fabricEnd *end, void *pair, uint64_t *peer, char *why);
	int (*pairConnect)(struct fabricEnd *end, uint64_t peer, const void *address,
			   const void *theirs, char *why);

	int (*memoryAdd)(struct fabric *fabric, void *at, size_t bytes, struct fabricRegion **out,
			 struct fabricKey *key, char *why);
	void (*memoryRemove)(struct fabricRegion *region);

	/*
	 * As memoryAdd(), for memory of this process's GPU. `memory->dmabuf` stays the caller's.
	 * The first such memory, of 8 bytes or more, has no peers and stays until close(): the
	 * fabric may read it. *how: the way, such as "dma-buf". NULL: the fabric reaches no GPU
	 * memory.
	 */
	int (*gpuMemoryAdd)(struct fabric *fabric, const struct rdmaMemory *memory,
			    struct fabricRegion **out, struct fabricKey *key, const char **how,
			    char *why);

	/*
	 * May return fabricBusy: no room, nothing was begun. poll() returns the context when a
	 * write's bytes are in the peer's memory, visible there, or a read's bytes in `local`. A
	 * write with an immediate may be done earlier: when `local` may change. With
	 * fabricWanted.isRail a write without immediate is also visible to the peer after a message
	 * by another NIC.
	 */
	int (*write)(struct fabricEnd *end, uint64_t peer, const struct fabricPiece *piece,
		     const uint32_t *immediate, void *context);
	int (*read)(struct fabricEnd *end, uint64_t peer, const struct fabricPiece *piece,
		    void *context);
	/* May return fabricBusy. The message is copied. */
	int (*send)(struct fabricEnd *end, uint64_t peer, const void *message, size_t bytes);

	/* Submits the operations that write(), read() and send() have begun. NULL: they submit. */
	void (*submit)(struct fabricEnd *end);

	/* Makes progress. Returns how many events it has filled in. */
	int (*poll)(struct fabricEnd *end, struct fabricEvent *events, int most);

	/*
	 * Before a sleep: a file descriptor that becomes readable when poll() has something to do;
	 * or -1, poll() has something to do now. `isBrief`: as struct transportOps. NULL: the
	 * fabric has no such descriptor.
	 */
	int (*arm)(struct fabricEnd *end, int isBrief);
};

#endif
