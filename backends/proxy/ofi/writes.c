/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * writes.c - operations of an endpoint, and writes that share an acknowledgement
 *
 * An acknowledgement of a provider over TCP is a separate message, which the receiving thread
 * sends. These providers handle the messages of a connection in order. So plain writes to one peer
 * wait in a batch until submit(), until another operation of the endpoint begins, or until the
 * batch is full. Then the provider gets all of them, and only the last one asks for
 * delivery-complete: when it is done, all writes of its batch have landed.
 *
 * The provider takes up to OFI_GROUP writes of a batch as one, with a list of places: one header,
 * one call of sendmsg() and fewer of recvmsg(). It copies the bytes that it receives with a header,
 * up to 9000, once more, so fewer headers mean fewer copies.
 *
 * The provider makes no progress while a batch is given, and so does not replace a broken
 * connection between two writes of one batch. An endpoint that is not the only one has no batches,
 * because polls of the others make progress. If the provider has no room for a write of a batch,
 * all writes of the batch are given again, and each asks for delivery-complete.
 */
#include "ofi.h"

#define BATCH_BYTES (512u << 10)
#define BATCH_WRITES 32u

struct ofiOp *ofiTakeOp(struct fabricEnd *end, enum ofiKind kind, uint64_t peer, void *of)
{
	struct ofiOp *op = end->freeOps;

	if (!op)
		return NULL;
	end->freeOps = op->next;
	op->kind = kind;
	op->peer = peer;
	op->of = of;
	op->mr = NULL;
	op->riders = NULL;
	op->with = NULL;
	op->given = 0;
	op->isRider = 0;
	op->error = 0;
	return op;
}

void ofiGiveOp(struct fabricEnd *end, struct ofiOp *op)
{
	if (op->mr)
		fi_close(&op->mr->fid);
	op->mr = NULL;
	op->next = end->freeOps;
	end->freeOps = op;
}

/* Lands the transfer if nothing of it is in flight. */
static void land(struct fabricEnd *end, struct ofiOp *op)
{
	if (op->given || op->isRider)
		return;
	op->next = NULL;
	if (end->landed)
		end->lastLanded->next = op;
	else
		end->landed = op;
	end->lastLanded = op;
}

static void transferred(struct fabricEnd *end, struct ofiOp *op, int error)
{
	op->given--;
	if (error)
		op->error = error;
	if (op->given || op->isRider)
		return;
	for (struct ofiOp *rider = op->riders, *next; rider; rider = next) {
		next = rider->next;
		rider->isRider = 0;
		if (op->error)
			rider->error = op->error;
		land(end, rider);
	}
	land(end, op);
}

void ofiTransferred(struct fabricEnd *end, struct ofiOp *op, int error)
{
	struct ofiOp *with = op->with;

	op->with = NULL;
	for (struct ofiOp *next; with; with = next) {
		next = with->with;
		with->with = NULL;
		transferred(end, with, error);
	}
	transferred(end, op, error);
}

int ofiTakeLanded(struct fabricEnd *end, struct fabricEvent *events, int most)
{
	int count = 0;

	while (end->landed && count < most) {
		struct ofiOp *op = end->landed;
		end->landed = op->next;
		events[count++] = (struct fabricEvent){
			.kind = fabricDone, .error = op->error, .context = op->of};
		ofiGiveOp(end, op);
	}
	return count;
}

/* An error of libfabric, or 0. */
static ssize_t writeNow(struct fabricEnd *end, struct ofiOp *op, const struct fabricPiece *piece,
			uint64_t flags)
{
	const struct iovec local = {piece->local, piece->bytes};
	const struct fi_rma_iov remote = {piece->remote.address, piece->bytes, piece->remote.key};
	void *descriptor;
	const struct fi_msg_rma message = {.msg_iov = &local,
					   .desc = &descriptor,
					   .iov_count = 1,
					   .addr = op->peer,
					   .rma_iov = &remote,
					   .rma_iov_count = 1,
					   .context = op};
	ssize_t error = ofiDescribe(end, piece, op, &descriptor);

	if (!error)
		error = fi_writemsg(end->ep, &message, FI_COMPLETION | flags);
	if (!error)
		op->given++;
	return error;
}

/* All writes of the batch are given. */
static void closeBatch(struct ofiBatch *b)
{
	struct ofiOp *first = b->first;

	if (first != b->last) {
		struct ofiOp *before = first;
		while (before->next != b->last)
			before = before->next;
		before->next = NULL;
		b->last->riders = first;
	}
	*b = (struct ofiBatch){.first = NULL};
}

static void removeFirst(struct ofiBatch *b)
{
	b->first = b->first->next;
	if (!b->first)
		*b = (struct ofiBatch){.first = NULL};
}

/* Each write asks for delivery-complete. A write that fails lands with its error. */
static int giveEach(struct fabricEnd *end)
{
	struct ofiBatch *b = &end->batch;

	while (b->first) {
		struct ofiOp *op = b->first;
		ssize_t error = writeNow(end, op, &op->piece, FI_DELIVERY_COMPLETE);
		if (error == -FI_EAGAIN)
			return fabricBusy;
		removeFirst(b);
		op->isRider = 0;
		if (error) {
			op->error = (int)-error;
			land(end, op);
		}
	}
	return fabricOk;
}

/* How many writes from `first` on the provider takes as one. */
static size_t groupFrom(const struct fabric *f, const struct ofiOp *first)
{
	uint64_t room = f->info->ep_attr->max_msg_size - first->piece.bytes;
	size_t count = 1;

	for (const struct ofiOp *op = first->next; op && count < f->group; op = op->next) {
		if (op->piece.bytes > room)
			break;
		room -= op->piece.bytes;
		count++;
	}
	return count;
}

/* The completion of `last` counts for all. Every write of the batch but the last is a rider. */
static void groupGiven(struct ofiOp *first, struct ofiOp *last)
{
	struct ofiOp *before = NULL;

	for (struct ofiOp *op = first; before != last; op = op->next) {
		op->with = before;
		op->given++;
		op->isRider = op->next != NULL;
		before = op;
	}
}

/* Gives the provider `count` writes as one. Returns the last of them; NULL: it takes none now. */
static struct ofiOp *writeGroup(struct fabricEnd *end, struct ofiOp *first, size_t count)
{
	struct fi_rma_iov remote[OFI_GROUP];
	struct iovec local[OFI_GROUP];
	void *descriptor[OFI_GROUP];
	struct ofiOp *op = first, *last = first;

	for (size_t i = 0; i < count; i++, op = op->next) {
		const struct fabricPiece *p = &op->piece;
		if (ofiDescribe(end, p, op, &descriptor[i]))
			return NULL;
		local[i] = (struct iovec){p->local, p->bytes};
		remote[i] = (struct fi_rma_iov){p->remote.address, p->bytes, p->remote.key};
		last = op;
	}
	const struct fi_msg_rma message = {.msg_iov = local,
					   .desc = descriptor,
					   .iov_count = count,
					   .addr = last->peer,
					   .rma_iov = remote,
					   .rma_iov_count = count,
					   .context = last};
	uint64_t flags = FI_COMPLETION | (last->next ? 0 : FI_DELIVERY_COMPLETE);
	if (fi_writemsg(end->ep, &message, flags))
		return NULL;
	groupGiven(first, last);
	return last;
}

int ofiGiveBatch(struct fabricEnd *end)
{
	struct ofiBatch *b = &end->batch;

	if (!b->first || b->isSplit)
		return giveEach(end);
	for (struct ofiOp *op = b->first, *last; op; op = last->next) {
		last = writeGroup(end, op, groupFrom(end->fabric, op));
		if (!last) {
			b->isSplit = 1;
			return giveEach(end);
		}
	}
	closeBatch(b);
	return fabricOk;
}

static int isFull(const struct ofiBatch *b)
{
	return b->bytes >= BATCH_BYTES || b->count == BATCH_WRITES;
}

static int addToBatch(struct fabricEnd *end, uint64_t peer, const struct fabricPiece *piece,
		      void *context)
{
	struct ofiBatch *b = &end->batch;

	if (b->first && (b->first->peer != peer || isFull(b)) && ofiGiveBatch(end) != fabricOk)
		return fabricBusy;
	struct ofiOp *op = ofiTakeOp(end, ofiTransfer, peer, context);
	if (!op)
		return fabricBusy;
	op->piece = *piece;
	op->isRider = 1;
	op->next = NULL;
	if (b->first)
		b->last->next = op;
	else
		b->first = op;
	b->last = op;
	b->bytes += piece->bytes;
	b->count++;
	if (isFull(b))
		ofiGiveBatch(end);
	return fabricOk;
}

int ofiBegun(struct fabricEnd *end, struct ofiOp *op, ssize_t error)
{
	if (!error)
		return fabricOk;
	ofiGiveOp(end, op);
	return error == -FI_EAGAIN ? fabricBusy : fabricFailed;
}

int ofiWrite(struct fabricEnd *end, uint64_t peer, const struct fabricPiece *piece,
	     const uint32_t *immediate, void *context)
{
	(void)immediate; /* fabricAbout.immediates is 0 */
	if (!piece->isCovered && end->fabric->sharesAcks && ofiIsAlone(end))
		return addToBatch(end, peer, piece, context);
	if (ofiGiveBatch(end) != fabricOk)
		return fabricBusy;
	struct ofiOp *op = ofiTakeOp(end, ofiTransfer, peer, context);
	if (!op)
		return fabricBusy;
	uint64_t flags = piece->isCovered ? 0 : FI_DELIVERY_COMPLETE;
	return ofiBegun(end, op, writeNow(end, op, piece, flags));
}

int ofiRead(struct fabricEnd *end, uint64_t peer, const struct fabricPiece *piece, void *context)
{
	void *descriptor;

	if (ofiGiveBatch(end) != fabricOk)
		return fabricBusy;
	struct ofiOp *op = ofiTakeOp(end, ofiTransfer, peer, context);
	if (!op)
		return fabricBusy;
	ssize_t error = ofiDescribe(end, piece, op, &descriptor);
	if (!error)
		error = fi_read(end->ep, piece->local, piece->bytes, descriptor, peer,
				piece->remote.address, piece->remote.key, &op->context);
	op->given = 1;
	return ofiBegun(end, op, error);
}

void ofiSubmit(struct fabricEnd *end)
{
	ofiGiveBatch(end);
}
