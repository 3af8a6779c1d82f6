/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bootstrap_split.cc - communicators made by ginCommSplit(): members and order, checked by data;
 * each part is destroyed independently
 */
/* COMPILE: -O0 */
#include "bootstrap.h"

#include <limits.h>

struct Choice {
	int color, key;
};

/* Makes the part, which must be as the choices of all ranks say; false: this rank is in none. */
static bool split(Rank &r, const std::vector<Choice> &choices, Rank &part)
{
	const Choice &mine = choices[static_cast<size_t>(r.rank)];
	int before = 0, members = 0;
	ginComm_t comm = nullptr;

	CHECK(ginCommSplit(r.comm, mine.color, mine.key, &comm));
	EXPECT((comm == nullptr) == (mine.color == GIN_NO_COLOR));
	if (!comm)
		return false;
	for (int peer = 0; peer < r.nRanks; peer++) {
		const Choice &other = choices[static_cast<size_t>(peer)];
		if (other.color != mine.color)
			continue;
		members++;
		before += other.key < mine.key || (other.key == mine.key && peer < r.rank);
	}
	part = rankTake(comm);
	EXPECT(part.rank == before);
	EXPECT(part.nRanks == members);
	EXPECT(part.device == r.device);
	return true;
}

static uint32_t tagOf(const Rank &r, const std::vector<Choice> &choices)
{
	return 1000 + static_cast<uint32_t>(choices[static_cast<size_t>(r.rank)].color);
}

template <class Choose> std::vector<Choice> chooseAll(const Rank &r, Choose choose)
{
	std::vector<Choice> choices;

	for (int peer = 0; peer < r.nRanks; peer++)
		choices.push_back(choose(peer));
	return choices;
}

/* Parts by these choices work, and so does the communicator that was split. */
template <class Choose> void expectParts(Rank &r, Choose choose)
{
	std::vector<Choice> choices = chooseAll(r, choose);
	Rank part;

	if (split(r, choices, part)) {
		exchange(part, tagOf(r, choices));
		rankClose(part);
	}
	exchange(r, 1);
}

static void shapes(Rank &r)
{
	expectParts(r, [](int) { return Choice{0, 0}; });
	expectParts(r, [](int peer) { return Choice{peer % 2, -peer}; });
	expectParts(r, [](int peer) { return Choice{peer / 2, peer % 2 ? INT_MIN : INT_MAX}; });
	expectParts(r, [](int peer) { return Choice{INT_MAX - peer, 0}; });
	expectParts(r, [](int peer) { return Choice{peer % 3 ? 7 : GIN_NO_COLOR, peer % 2}; });
	expectParts(r, [](int peer) { return Choice{peer ? GIN_NO_COLOR : 0, 0}; });
	expectParts(r, [](int) { return Choice{GIN_NO_COLOR, 0}; });
}

static void anyShapes(Rank &r)
{
	for (uint32_t round = 0; round < 6; round++)
		expectParts(r, [&](int peer) {
			uint32_t x = (static_cast<uint32_t>(peer) * 8 + round + 1) * 2654435761u;
			return Choice{static_cast<int>(x >> 28 & 3) - 1,
				      static_cast<int>(x >> 20 & 7) - 4};
		});
}

/* Halves of halves, all of which work as long as there is a deeper one. */
static void halve(Rank &r, uint32_t depth)
{
	Rank part;

	exchange(r, depth);
	if (r.nRanks > 1) {
		int half = r.nRanks / 2;
		split(r, chooseAll(r, [&](int peer) { return Choice{peer < half, -peer}; }), part);
		halve(part, depth + 1);
		rankClose(part);
	}
	exchange(r, depth + 100);
}

static void nested(Rank &r)
{
	halve(r, 5);
}

struct Use {
	Rank *rank;
	uint32_t tag;
};

static void *useOften(void *arg)
{
	Use *use = static_cast<Use *>(arg);

	for (uint32_t i = 0; i < 4; i++)
		exchange(*use->rank, use->tag + i);
	return nullptr;
}

/* A communicator and parts of two kinds, each on a thread of its own. */
static void atTheSameTime(Rank &r)
{
	Rank odd, all;
	split(r, chooseAll(r, [](int peer) { return Choice{peer % 2, 0}; }), odd);
	split(r, chooseAll(r, [](int peer) { return Choice{3, -peer}; }), all);
	Use uses[] = {{&r, 10}, {&odd, 20 + static_cast<uint32_t>(r.rank % 2) * 10}, {&all, 40}};
	pthread_t threads[3];

	for (int i = 0; i < 3; i++)
		EXPECT(!pthread_create(&threads[i], nullptr, useOften, &uses[i]));
	for (pthread_t thread : threads)
		pthread_join(thread, nullptr);
	rankClose(all);
	rankClose(odd);
}

/* The end of the first communicator does not affect the others. */
static void destroyInAnyOrder(Rank &r)
{
	static const int orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 0, 2}};

	for (const int *order : orders) {
		Rank chain[3];
		split(r, chooseAll(r, [](int peer) { return Choice{0, -peer}; }), chain[0]);
		for (int i = 1; i < 3; i++)
			split(chain[i - 1],
			      chooseAll(r,
					[](int) {
						return Choice{0, 0};
					}),
			      chain[i]);
		for (int i = 0; i < 3; i++) {
			rankClose(chain[order[i]]);
			for (int left = i + 1; left < 3; left++)
				exchange(chain[order[left]], static_cast<uint32_t>(left));
		}
	}
	exchange(r, 2);
}

/* The failure of a part does not end the others. */
static void abortedPart(Rank &r)
{
	ginWindow_t window;
	Rank part, other;

	split(r, chooseAll(r, [](int) { return Choice{0, 0}; }), part);
	split(r, chooseAll(r, [](int) { return Choice{0, 0}; }), other);
	if (r.rank == 0)
		CHECK(ginCommAbort(part.comm));
	EXPECT_FAILS(ginWindowRegister(part.comm, nullptr, 0, 0, &window),
		     r.rank ? ginErrorPeer : ginErrorAborted, "rank 0");
	rankClose(part);
	exchange(r, 3);
	exchange(other, 4);
	rankClose(other);
}

/* Ranks that make different calls get an error; the communicator that was split lives. */
static void differentCalls(Rank &r)
{
	ginComm_t none = nullptr;
	ginWindow_t window;
	Rank part;

	split(r, chooseAll(r, [](int) { return Choice{0, 0}; }), part);
	if (r.nRanks > 1) {
		if (r.rank)
			EXPECT_FAILS(ginWindowRegister(part.comm, nullptr, 0, 0, &window),
				     ginErrorInvalidUsage, "ginCommSplit", "ginWindowRegister",
				     "same collective calls in the same order");
		else
			EXPECT_FAILS(ginCommSplit(part.comm, 0, 0, &none), ginErrorInvalidUsage,
				     "ginCommSplit", "ginWindowRegister",
				     "same collective calls in the same order");
	}
	EXPECT(!none);
	rankClose(part);
	exchange(r, 5);
}

static int run(const ginConfig_t *config)
{
	Rank r;

	rankOpen(r, config);
	for (void (*test)(Rank &) : {shapes, anyShapes, nested, atTheSameTime, destroyInAnyOrder,
				     abortedPart, differentCalls}) {
		test(r);
		meet(r);
	}
	rankClose(r);
	return 0;
}

int main(int argc, char **argv)
{
	return ranksMain(argc, argv, run);
}
