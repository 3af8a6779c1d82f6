/* SPDX-License-Identifier: BSD-3-Clause */
/* queue.c - decodes, checks and prints the elements of a queue */
#include "gin_mlx5dump.h"

#include "mlx5/cqe.h"
#include "mlx5/wqe.h"

#include <stdio.h>

enum { ELEMENT_BYTES = 64 };

static const char between[] = "\n        ";

static void printElement(size_t slot, const char *text, const char *defects)
{
	printf("slot %zu: %s\n", slot, text);
	if (*defects)
		printf("        wrong: %s\n", defects);
}

/* Prints `count` blank slots, the first one `from`, which may wrap. */
static void printBlank(size_t from, size_t count, size_t elements)
{
	if (count == 1)
		printf("slot %zu: nothing was written\n", from % elements);
	else if (count)
		printf("slots %zu to %zu: nothing was written\n", from % elements,
		       (from + count - 1) % elements);
}

static const char *plural(size_t count)
{
	return count == 1 ? "" : "s";
}

/* Number of whole elements; reports a partial one at the end. */
static size_t elementsOf(const struct dump *d, size_t *malformed)
{
	if (d->count % ELEMENT_BYTES == 0)
		return d->count / ELEMENT_BYTES;
	printf("wrong: %zu bytes are not a multiple of %d; the last %zu are left out\n", d->count,
	       ELEMENT_BYTES, d->count % ELEMENT_BYTES);
	++*malformed;
	return d->count / ELEMENT_BYTES;
}

/*
 * Checks the 16-bit index of a WQE. It is `wanted`, or less by the queue's length when the slot
 * still holds a WQE of the lap before. Only a power of two can be the length of a whole queue.
 */
static int indexFits(uint32_t index, uint32_t wanted, size_t elements)
{
	uint32_t period = elements & (elements - 1) ? 0x10000 : (uint32_t)elements;

	return (index - wanted) % period == 0;
}

static void checkNeighbours(struct decodedWqe *w, size_t offset, size_t elements,
			    struct expectedQueue *e)
{
	if (e->index < 0)
		e->index = (long)(w->index - offset);
	if (e->queue < 0)
		e->queue = w->queue;
	uint32_t wanted = (uint32_t)e->index + (uint32_t)offset;
	if (!indexFits(w->index, wanted, elements))
		wqeDefect(w, "index is 0x%x, this slot should have 0x%x", w->index,
			  wanted & 0xffff);
	if (w->queue != (uint32_t)e->queue)
		wqeDefect(w, "queue is 0x%x, not 0x%lx", w->queue, (unsigned long)e->queue);
}

size_t printSendQueue(const struct dump *d, const struct expectedQueue *expected)
{
	struct expectedQueue e = *expected;
	size_t malformed = 0, wqes = 0, blank = 0, run = 0, offset = 0;
	size_t elements = elementsOf(d, &malformed), first = e.first > 0 ? (size_t)e.first : 0;

	while (offset < elements) {
		size_t slot = (first + offset) % elements;
		char text[4096];
		struct decodedWqe w;

		if (wqeIsBlank(d->bytes, (uint32_t)slot)) {
			run++, blank++, offset++;
			continue;
		}
		printBlank(first + offset - run, run, elements);
		run = 0;
		wqeDecode(d->bytes, (uint32_t)elements, (uint32_t)slot, &w);
		checkNeighbours(&w, offset, elements, &e);
		wqeText(&w, between, text, sizeof(text));
		printElement(slot, text, w.defects);
		malformed += *w.defects != '\0';
		offset += w.wqebbs;
		wqes++;
	}
	printBlank(first + offset - run, run, elements);
	printf("%zu WQE%s, %zu malformed; %zu blank slot%s\n", wqes, plural(wqes), malformed, blank,
	       plural(blank));
	return malformed;
}

enum { ownerBlank = 2, ownerNone = 3 };

/*
 * The device writes owner bit 0 in its first lap, 1 in its second lap, 0 in its third, and so on.
 * So the queue starts with owner bits of the current lap. From some slot on, slots have the owner
 * bit of the lap before, or are blank in the first lap.
 */
static const char *ownerWrong(int before, int now, int *switches)
{
	if (before == ownerNone || before == now)
		return NULL;
	if (before == ownerBlank)
		return "the slots before it are blank";
	if (now == ownerBlank && before == 1)
		return "it is blank, but the slot before it has owner bit 1, which the first lap "
		       "never writes";
	if (++*switches > 1)
		return "the owner bits come from more than two laps";
	return NULL;
}

size_t printCompletionQueue(const struct dump *d)
{
	int owner = ownerNone, switches = 0;
	size_t malformed = 0, cqes = 0, run = 0, blank = 0;
	size_t elements = elementsOf(d, &malformed);

	for (size_t slot = 0; slot < elements; slot++) {
		char text[1024];
		struct decodedCqe c;

		cqeDecode(d->bytes + slot * ELEMENT_BYTES, &c);
		int now = cqeIsBlank(&c) ? ownerBlank : c.owner;
		const char *wrong = ownerWrong(owner, now, &switches);
		if (wrong)
			cqeDefect(&c, "%s", wrong);
		owner = now;
		if (cqeIsBlank(&c) && !*c.defects) {
			run++, blank++;
			continue;
		}
		printBlank(slot - run, run, elements);
		run = 0;
		cqeText(&c, between, text, sizeof(text));
		printElement(slot, text, c.defects);
		malformed += *c.defects != '\0';
		cqes++;
	}
	printBlank(elements - run, run, elements);
	printf("%zu CQE%s, %zu malformed; %zu blank slot%s\n", cqes, plural(cqes), malformed, blank,
	       plural(blank));
	return malformed;
}
