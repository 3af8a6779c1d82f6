/* SPDX-License-Identifier: BSD-3-Clause */
/* transports.h - the transports of a communicator: which peer each serves; calls for all of them */
#ifndef GIN_PROXY_TRANSPORTS_H
#define GIN_PROXY_TRANSPORTS_H

#include "network/choice/choice.h"
#include "transport.h"
#include "words/word_locks.h"

/* Touched by collective calls until workers start; then any thread reads it. */
struct proxyTransports {
	const struct backendHost *host;
	uint32_t lanes;
	uint8_t *of;	 /* [nRanks]: the transport that serves the peer */
	uint8_t *serves; /* [TRANSPORTS][nRanks] */
	struct transportScope scope[TRANSPORTS];
	void *state[TRANSPORTS]; /* NULL: not open */
	struct wordLocks locks;	 /* empty where the proxy changes no words */
};

/* Does the transport serve the peer? */
static inline int transportServes(const struct proxyTransports *t, int transport, int peer)
{
	return t->serves[transport * t->host->nRanks + peer];
}

/* As backendOps.probe. */
int transportsProbe(const struct backendHost *host, void *blob, char *why);

/* As the calls of struct backendOps. */
enum backendSearch transportsSearches(const void *blob);
ginResult_t transportsSearch(const struct backendHost *host, void *blob);
int transportsHaveFound(const void *blob);

/* As backendOps.reach: by the transport that both ranks choose. */
int transportsReach(const struct backendHost *host, int peer, const void *mine, const void *theirs,
		    char *why);

ginResult_t transportsOpen(const struct backendHost *host, const struct proxySlots *slots,
			   uint32_t lanes, struct proxyTransports *out);
void transportsPlan(struct plan *plan);
void transportsClose(struct proxyTransports *transports);

/*
 * Is any rank on a network? Then transportsConnect() is called. The answer is equal on all ranks.
 */
int transportsNeedConnect(const struct proxyTransports *transports);

/*
 * Does some rank have GPU memory in which proxies change words? The answer is equal on all ranks.
 */
int transportsNeedLocks(const struct proxyTransports *transports);

/* Can words in this rank's GPU memory be changed by all proxies that reach them? */
int transportsChangeWords(const struct proxyTransports *transports);

/* Collective: connects the lanes of all ranks. Afterwards the ranks must agree on the result. */
ginResult_t transportsConnect(struct proxyTransports *transports, const char *call);

/* The lanes of one worker. */
struct transportLanes transportsLanes(const struct proxyTransports *transports, uint32_t index);

/* As the calls of struct backendOps, for the transports that are open. */
ginResult_t transportsOffer(struct proxyTransports *transports, const struct memory *memory,
			    struct proxyOffer *offer, struct proxyWindow *window);
ginResult_t transportsLocal(struct proxyTransports *transports, const struct memory *memory,
			    struct proxyWindow *window);
ginResult_t transportsRegister(struct proxyTransports *transports, ginResult_t mine,
			       const uint8_t *offers, size_t stride, struct proxyWindow *window);
void transportsDeregister(struct proxyTransports *transports, struct proxyWindow *window);

#endif
