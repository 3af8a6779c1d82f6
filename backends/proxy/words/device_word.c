/* SPDX-License-Identifier: BSD-3-Clause */
/* device_word.c - changes words in GPU memory, which CPUs do not reach */
#include "device_word.h"

#include "lib/gpu/pinned.h"
#include "backends/proxy/transport.h"
#include "words.h"

#define LINE_BYTES 64

static uint64_t *doneOf(const struct deviceWord *word)
{
	return word->line + 1;
}

ginResult_t deviceWordOpen(const struct device *d, struct deviceWord *word)
{
	void *line = NULL;

	word->device = d;
	if (!d->cuda)
		return ginSuccess;
	ginResult_t result = pinnedAlloc(d, LINE_BYTES, d->numaNode, &line);
	if (result != ginSuccess)
		return result;
	word->line = line;
	cuResult made = d->cuda->streamCreate(&word->stream, cuNonBlocking);
	return made ? cudaFail(d->cuda, "cuStreamCreate", made) : ginSuccess;
}

static void release(struct deviceWord *word)
{
	wordLockRelease(word->order.lock);
	word->order.lock = NULL;
}

void deviceWordDrain(struct deviceWord *word)
{
	if (!word->order.lock)
		return;
	cuResult result = word->device->cuda->streamSynchronize(word->stream);
	if (!result)
		return;
	cudaFail(word->device->cuda, "cuStreamSynchronize", result);
	word->hasFailed = 1;
}

void deviceWordClose(struct deviceWord *word)
{
	uint64_t old;

	while (word->order.lock) {
		deviceWordDrain(word);
		deviceWordStep(word, &old);
	}
	if (word->stream)
		word->device->cuda->streamDestroy(word->stream);
	if (word->line)
		pinnedFree(word->device, word->line);
	word->stream = NULL;
	word->line = NULL;
}

/*
 * `submitted`: the result of a copy or write. The stream then counts the step. On an error the word
 * is given up.
 */
static ginResult_t chainStep(struct deviceWord *word, const char *call, cuResult submitted)
{
	const struct cuda *cuda = word->device->cuda;

	if (!submitted) {
		call = "cuStreamWriteValue64";
		submitted = cuda->streamWrite64(word->stream, (cuPtr)(uintptr_t)doneOf(word),
						++word->sent, 0);
	}
	if (!submitted)
		return ginSuccess;
	release(word);
	return cudaFail(cuda, call, submitted);
}

ginResult_t deviceWordStart(struct deviceWord *word, const struct deviceWordOrder *order)
{
	if (!word->stream || !order->lock)
		return ginErrorUnsupported;
	if (word->order.lock || !wordLockTry(order->lock, &word->ticket))
		return transportBusy;
	word->order = *order;
	word->isWriting = 0;
	return chainStep(word, "cuMemcpyAsync",
			 word->device->cuda->copy((cuPtr)(uintptr_t)word->line,
						  (cuPtr)(uintptr_t)order->at, order->bytes,
						  word->stream));
}

/*
 * The word's value is in `line`. S and A, release ends: the stream writes after all data that the
 * word covers.
 */
static ginResult_t writeBack(struct deviceWord *word)
{
	const struct cuda *cuda = word->device->cuda;
	const struct deviceWordOrder *o = &word->order;
	cuPtr at = (cuPtr)(uintptr_t)o->at;
	cuResult result;

	word->old = wordChange(o->op, word->line, o->bytes, o->operand, o->compare);
	word->isWriting = 1;
	if (o->bytes == 8)
		result = cuda->streamWrite64(word->stream, at, *word->line, 0);
	else
		result = cuda->streamWrite32(word->stream, at, *(uint32_t *)word->line, 0);
	return chainStep(word, "cuStreamWriteValue", result);
}

ginResult_t deviceWordStep(struct deviceWord *word, uint64_t *old)
{
	ginResult_t result = ginSuccess;

	if (word->hasFailed) {
		release(word);
		return ginErrorCuda;
	}
	/* Acquire: the stream's count follows its copy, which is visible here. */
	if (__atomic_load_n(doneOf(word), __ATOMIC_ACQUIRE) < word->sent)
		return transportBusy;
	if (!word->isWriting) {
		result = writeBack(word);
		return result == ginSuccess ? transportBusy : result;
	}
	*old = word->old;
	release(word);
	return result;
}
