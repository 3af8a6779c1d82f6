/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * poll.c - completions become events
 *
 * Work requests of a queue pair complete in order. The first completion in error is the reason; the
 * work requests after it are flushed, and the peer is dead.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "verbs.h"

#define COMPLETIONS 16	 /* of one ibv_poll_cq() */
#define EVENT_TURNS 1024 /* polls between two checks of the device's events */

void verbsPeerHasNews(struct verbsPeer *peer)
{
	struct fabricEnd *end = peer->end;

	if (peer->hasNews)
		return;
	peer->hasNews = 1;
	peer->nextNews = end->news;
	end->news = peer;
}

void verbsPeerDies(struct verbsPeer *peer, uint32_t failed, const char *why)
{
	if (peer->isDead)
		return;
	peer->isDead = 1;
	peer->failed = failed;
	peer->completed = peer->posted = peer->begun;
	snprintf(peer->why, sizeof(peer->why), "%s", why);
	verbsPeerHasNews(peer);
	if (peer == peer->end->self)
		verbsFlushRelease(peer->end);
}

/* What to check on the cluster. */
static const char *remedyOf(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_RETRY_EXC_ERR:
		return "is its process alive, its port up, the path without loss?";
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return "its proxy does not run: is its process stopped?";
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
		return "has it deregistered the window?";
	case IBV_WC_LOC_PROT_ERR:
	case IBV_WC_LOC_LEN_ERR:
		return "was the memory freed while it was registered?";
	default:
		return "see the kernel log of both hosts";
	}
}

static const char *operationOf(const struct verbsOp *op)
{
	static const char *const names[] = {[verbsWrite] = "write",
					    [verbsRead] = "read",
					    [verbsSend] = "message",
					    [verbsConfirm] = "read after a write",
					    [verbsFlush] = "read of this rank's own GPU memory"};

	return names[op->kind];
}

static void explainSend(const struct verbsPeer *peer, const struct verbsOp *op,
			const struct ibv_wc *wc, char *why)
{
	snprintf(why, FABRIC_WHY, "a %s of %u bytes, QP 0x%x to 0x%x: %.32s (%d, vendor 0x%x): %s",
		 operationOf(op), op->bytes, peer->mine.number, peer->theirs.number,
		 ibv_wc_status_str(wc->status), wc->status, wc->vendor_err, remedyOf(wc->status));
}

static void explainReceive(const struct verbsPeer *peer, const struct ibv_wc *wc, char *why)
{
	snprintf(why, FABRIC_WHY, "QP 0x%x to 0x%x takes no messages: %.32s (%d, vendor 0x%x): %s",
		 peer->mine.number, peer->theirs.number, ibv_wc_status_str(wc->status), wc->status,
		 wc->vendor_err, remedyOf(wc->status));
}

static uint32_t isWithin(const struct verbsPeer *peer, uint32_t serial)
{
	return serial - peer->completed < peer->posted - peer->completed;
}

/* Reads into GPU memory wait for a flush from now on. */
static void opsCompleted(struct verbsPeer *peer, uint32_t end)
{
	for (; peer->completed != end; peer->completed++) {
		struct verbsOp *op = &peer->op[verbsSlot(peer, peer->completed)];
		if (op->kind == verbsFlush)
			verbsFlushDone(peer->end);
		if (op->intoGpu)
			op->flush = verbsFlushOf(peer->end);
	}
}

static void sendCompleted(struct verbsPeer *peer, const struct ibv_wc *wc)
{
	uint32_t serial = (uint32_t)wc->wr_id;
	char why[FABRIC_WHY];

	if (peer->isDead || !isWithin(peer, serial))
		return;
	if (wc->status == IBV_WC_SUCCESS) {
		opsCompleted(peer, serial + 1);
		verbsPeerHasNews(peer);
		return;
	}
	opsCompleted(peer, serial);
	explainSend(peer, &peer->op[verbsSlot(peer, serial)], wc, why);
	verbsPeerDies(peer, serial, why);
}

static void renew(const struct verbsReceive *r)
{
	int error = verbsReceivePost(r->peer, r->index);
	char why[FABRIC_WHY];

	if (!error)
		return;
	verbsFailErrno(why, "its queue pair refuses a receive", error);
	verbsPeerDies(r->peer, r->peer->completed, why);
}

void verbsReceivesRenew(struct fabricEnd *end)
{
	for (uint32_t i = 0; i < end->used; i++)
		renew(&end->usedReceive[i]);
	end->used = 0;
}

/* verbsReceivesRenew() posts the receive again, once the caller has raised the message's signal. */
static void useReceive(struct verbsPeer *peer, uint32_t index)
{
	struct fabricEnd *end = peer->end;

	if (end->used == VERBS_USED)
		verbsReceivesRenew(end);
	end->usedReceive[end->used++] = (struct verbsReceive){peer, index};
}

/*
 * An event of the peer. It does not clear the bytes of a message, which would take longer than the
 * rest.
 */
static void beginEvent(struct fabricEvent *event, const struct verbsPeer *peer)
{
	memset(event, 0, offsetof(struct fabricEvent, message));
	event->peer = (uintptr_t)peer;
}

/* Fills in the event. Returns 1. */
static int reportMessage(const struct verbsHeld *m, struct fabricEvent *event)
{
	beginEvent(event, m->peer);
	if (m->isImmediate) {
		event->kind = fabricImmediate;
		event->immediate = m->immediate;
	} else {
		event->kind = fabricMessage;
		event->bytes = m->bytes;
		memcpy(event->message, m->peer->received[m->index], sizeof(event->message));
	}
	useReceive(m->peer, m->index);
	return 1;
}

/* Returns 1 if *event is set. */
static int receiveCompleted(struct verbsPeer *peer, const struct ibv_wc *wc,
			    struct fabricEvent *event)
{
	uint32_t index = (uint32_t)wc->wr_id;
	char why[FABRIC_WHY];

	/* Work requests in flight have the better reason. */
	if (wc->status == IBV_WC_WR_FLUSH_ERR && peer->completed != peer->posted)
		return 0;
	if (wc->status != IBV_WC_SUCCESS) {
		explainReceive(peer, wc, why);
		verbsPeerDies(peer, peer->completed, why);
		return 0;
	}
	const struct verbsHeld message = {
		.peer = peer,
		.index = index,
		.isImmediate = wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM,
		.bytes = wc->byte_len,
		.immediate = wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM ? ntohl(wc->imm_data) : 0};
	if (verbsHolds(peer->end)) {
		verbsHold(peer->end, &message);
		return 0;
	}
	return reportMessage(&message, event);
}

static int takeCompletions(struct fabricEnd *end, struct fabricEvent *events, int most)
{
	struct ibv_wc wc[COMPLETIONS];
	int got = ibv_poll_cq(end->cq, most < COMPLETIONS ? most : COMPLETIONS, wc), count = 0;

	if (got < 0) {
		verbsGoDown(end->fabric, "the completions of its queue pairs cannot be read: see "
					 "the kernel log");
		end->turns = EVENT_TURNS;
	}
	for (int i = 0; i < got; i++) {
		uint64_t number = wc[i].wr_id; /* the only valid field of an error */
		struct verbsPeer *peer = end->peer[(number & ~VERBS_RECEIVE) >> 32];
		if (number & VERBS_RECEIVE)
			count += receiveCompleted(peer, &wc[i], &events[count]);
		else
			sendCompleted(peer, &wc[i]);
	}
	return count;
}

/* Has the work request of the next event failed, or can it not be flushed? */
static int hasFailed(const struct verbsPeer *peer)
{
	const struct verbsPeer *self = peer->end->self;
	const struct verbsOp *op = &peer->op[verbsSlot(peer, peer->reported)];

	if (op->intoGpu && self->isDead && op->flush > peer->end->flushed)
		return 1;
	return peer->isDead && peer->reported - peer->failed < 1u << 31;
}

/* Does the next event wait for a flush? */
static int isWaiting(const struct verbsPeer *peer)
{
	const struct verbsOp *op = &peer->op[verbsSlot(peer, peer->reported)];

	return peer->reported != peer->completed && op->intoGpu && !hasFailed(peer) &&
	       op->flush > peer->end->flushed;
}

/* The next event of the peer's work requests. 0: there is none. */
static int report(struct verbsPeer *peer, struct fabricEvent *event)
{
	beginEvent(event, peer);
	event->why = peer->why;
	if (peer->isDead && !peer->isDeathReported) {
		peer->isDeathReported = 1;
		event->kind = peer == peer->end->self ? fabricDown : fabricLost;
		return 1;
	}
	while (peer->reported != peer->completed && !isWaiting(peer)) {
		const struct verbsOp *op = &peer->op[verbsSlot(peer, peer->reported)];
		event->kind = fabricDone;
		event->context = op->context;
		event->error = hasFailed(peer);
		peer->reported++;
		if (op->context)
			return 1;
	}
	return 0;
}

static int reportNews(struct fabricEnd *end, struct fabricEvent *events, int most)
{
	int count = 0;

	while (end->news && count < most) {
		struct verbsPeer *peer = end->news;
		if (report(peer, &events[count])) {
			count++;
			continue;
		}
		end->news = peer->nextNews;
		peer->hasNews = isWaiting(peer);
		if (!peer->hasNews)
			continue;
		peer->nextNews = end->waiting;
		end->waiting = peer;
	}
	return count;
}

static int reportHeld(struct fabricEnd *end, struct fabricEvent *events, int most)
{
	const struct verbsHeld *held;
	int count = 0;

	while (count < most && (held = verbsHeldReady(end))) {
		end->firstHeld++;
		if (!held->peer->isDead && !end->self->isDead)
			count += reportMessage(held, &events[count]);
	}
	return count;
}

int verbsPoll(struct fabricEnd *end, struct fabricEvent *events, int most)
{
	if (end->used)
		verbsReceivesRenew(end);
	int count = takeCompletions(end, events, most);

	if (end->self) {
		verbsFlushTurn(end);
		count += reportHeld(end, &events[count], most - count);
	}
	count += reportNews(end, &events[count], most - count);
	if (count < most && ++end->turns >= EVENT_TURNS) {
		end->turns = 0;
		count += verbsTakeEvent(end, &events[count]);
	}
	return count;
}

static void emptyChannel(struct fabricEnd *end)
{
	struct ibv_cq *cq;
	void *context;

	while (!ibv_get_cq_event(end->channel, &cq, &context)) {
		end->unacknowledged++;
		end->isArmed = 0;
	}
}

/* A completion may arrive before the queue is armed: poll() checks once more in between. */
int verbsArm(struct fabricEnd *end, int isBrief)
{
	(void)isBrief;
	end->turns = EVENT_TURNS;
	if (end->wait < 0 || end->news || end->chained || verbsHeldReady(end))
		return -1;
	emptyChannel(end);
	if (end->isArmed)
		return end->wait;
	end->isArmed = !ibv_req_notify_cq(end->cq, 0);
	return -1;
}
