/* SPDX-License-Identifier: BSD-3-Clause */
/* expert_dispatch.cc - rounds of dispatch and combine, each compared with the values of the seed */
#include <algorithm>

#include "expert_dispatch.h"

struct Trial {
	Rank &r;
	Grid grid;
	Layout at;
	Buffer tokens, inbox, lists, slots, made, answers;
	Buffer choice, weight, claimed, sent, claim, counts, result, deviceArray;
	Results results;
	Communicator first, second;
	uint64_t round;

	Trial(Rank &rank, Layout layout)
	    : r(rank), grid(portGrid(rank)), at(layout), tokens(rank, at.tokens * at.rowBytes()),
	      inbox(rank, at.inboxRows() * at.rowBytes()), lists(rank, at.inboxRows() * 4),
	      slots(rank, at.experts() * at.items() * 4ull),
	      made(rank, at.inboxRows() * at.rowBytes()),
	      answers(rank, 2 * at.items() * at.rowBytes()), choice(rank, at.items() * 4),
	      weight(rank, at.items() * 4), claimed(rank, at.experts() * 4),
	      sent(rank, at.experts() * 4), claim(rank, grid.blocks * grid.threads * 4),
	      counts(rank, LOCAL_EXPERTS * at.ranks * 4), result(rank, at.tokens * at.rowBytes()),
	      deviceArray(rank, DEVICES * sizeof(ginDevComm)),
	      results(rank, grid.blocks * grid.threads), first(rank, CONTEXTS, at.signals(), 0, 0),
	      second(rank, CONTEXTS, at.signals(), 0, 0), round(0)
	{
		writeTo(deviceArray, std::vector<ginDevComm>{first.dc, second.dc});
	}

	uint64_t seed() const { return portSeed() + round; }
	uint32_t half() const { return round % 2; }
	uint32_t self() const { return static_cast<uint32_t>(r.rank); }
	uint32_t chosenBy(uint32_t rank, uint32_t item) const
	{
		return chosen(seed(), rank, item, at.experts());
	}

	void fill()
	{
		std::vector<float> x, w;
		std::vector<uint32_t> e;
		for (uint32_t t = 0; t < at.tokens; t++)
			for (uint32_t i = 0; i < at.length; i++)
				x.push_back(tokenAt(seed(), self(), t, i));
		for (uint32_t item = 0; item < at.items(); item++) {
			e.push_back(chosenBy(self(), item));
			w.push_back(weightOf(seed(), self(), item));
		}
		writeTo(tokens, x);
		writeTo(choice, e);
		writeTo(weight, w);
		for (Buffer *zero : {&claimed, &sent, &result})
			zero->write(std::vector<unsigned char>(zero->bytes, 0));
	}

	template <class T> static T *words(Buffer &b) { return reinterpret_cast<T *>(b.ptr); }

	Experts experts(uint32_t near)
	{
		return {words<ginDevComm>(deviceArray),
			at,
			near,
			half(),
			tokens.window,
			inbox.window,
			lists.window,
			slots.window,
			made.window,
			answers.window,
			words<uint32_t>(choice),
			words<float>(weight),
			words<uint32_t>(claimed),
			words<uint32_t>(sent),
			words<uint32_t>(claim),
			words<uint32_t>(counts),
			words<float>(result)};
	}

	/* Not all of the buffer: peers may be a round ahead, in the other half. */
	template <class T> std::vector<T> read(Buffer &from, size_t start, size_t count) const
	{
		std::vector<T> out(count);
		copyBytes(r, out.data(), words<T>(from) + start, count * sizeof(T));
		return out;
	}

	/* Every item from `from` for the expert is there once, with its token. */
	void checkRows(uint32_t expert, uint32_t from, uint32_t count)
	{
		size_t row = at.inboxRow(half(), expert, from, 0);
		std::vector<uint32_t> items = read<uint32_t>(lists, row, count), wanted;
		std::vector<float> x = read<float>(inbox, row * at.length, count * at.length);

		for (uint32_t slot = 0; slot < count; slot++)
			for (uint32_t i = 0; i < at.length; i++)
				EXPECT(x[slot * at.length + i] ==
				       tokenAt(seed(), from, items[slot] / TOPK, i));
		for (uint32_t item = 0; item < at.items(); item++)
			if (chosenBy(from, item) == expert)
				wanted.push_back(item);
		std::sort(items.begin(), items.end());
		EXPECT(items == wanted);
	}

	void checkDispatch()
	{
		std::vector<uint32_t> count = readFrom<uint32_t>(counts);
		for (uint32_t local = 0; local < LOCAL_EXPERTS; local++)
			for (uint32_t from = 0; from < at.ranks; from++)
				checkRows(self() * LOCAL_EXPERTS + local, from,
					  count[local * at.ranks + from]);
	}

	float wanted(uint32_t token, uint32_t i) const
	{
		float x = tokenAt(seed(), self(), token, i), sum = 0;
		for (uint32_t item = token * TOPK; item < (token + 1) * TOPK; item++) {
			uint32_t expert = chosenBy(self(), item);
			if (expert != NONE)
				sum += weightOf(seed(), self(), item) * expertOf(expert, x);
		}
		return sum;
	}

	void checkCombine() const
	{
		std::vector<float> got = readFrom<float>(result);
		for (uint32_t token = 0; token < at.tokens; token++)
			for (uint32_t i = 0; i < at.length; i++)
				EXPECT(got[token * at.length + i] == wanted(token, i));
	}

	void once(uint32_t near)
	{
		fill();
		runOn(r, grid, results, Dispatch{experts(near), round == 0});
		checkDispatch();
		runOn(r, grid, results, Combine{experts(near)});
		checkCombine();
		round++;
	}
};

static int run(const ginConfig_t *config)
{
	Rank r;
	rankOpen(r, config);
	portSay(r, "expert_dispatch");
	const uint32_t ranks = static_cast<uint32_t>(r.nRanks);
	{
		Trial trial(r, r.device < 0 ? Layout{ranks, 12, 19} : Layout{ranks, 64, 250});
		for (int repeat = 0; repeat < 4; repeat++)
			for (uint32_t near : innerSizes(trial.first.dc))
				trial.once(near);
		meet(r); /* no rank frees memory while another rank's kernel runs */
	}
	rankClose(r);
	return 0;
}

int main(int argc, char **argv)
{
	return portMain(argc, argv, run);
}
