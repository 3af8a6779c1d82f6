// SPDX-License-Identifier: BSD-3-Clause
// signal_steps - what each step of a signal and a wait costs, beyond an atomic add and a poll
//
// Two GPUs of one process play ping-pong with signals. One line for each way to signal and to wait:
// nanoseconds one way, as median, smallest and largest of several runs. Before each signal the
// sender spins for a random time, which is subtracted: otherwise signals would always arrive at one
// phase of the polling loop, and the result would depend on that phase.
//
// Signals and waits are made by hand, or by libgin with a device communicator that is made by hand.
#include "two_gpus.cuh"

enum Wait {
	waitBare,	// polls only: the wait cannot time out
	waitBesideCall, // polls; the code contains a call that is never made
	waitGivesUp,	// polls 16 times, then calls a function that goes on polling
	waitGin
};

enum Signal {
	signalBare,  // the address is known
	signalNear,  // the peer's address is looked up in the kernel parameters
	signalAlive, // like signalNear, and then checks the peer's state
	signalGin
};

// The signal is the first word of a part.
__device__ uint64_t *signalOf(char *part)
{
	return reinterpret_cast<uint64_t *>(part);
}

__device__ ginResult_t giveUp(const PairSide &side, uint64_t least)
{
	return ginWaitOn<ginWordLook>(side.dc.self, ginWordLook{signalOf(side.mine)},
				      {ginCallWaitSignal, 0, 0, 64, least, 0, {}, nullptr});
}

template <Wait how> __device__ ginResult_t await(const PairSide &side, uint64_t least)
{
	if constexpr (how == waitGin) {
		return Gin(side.dc, 0).waitSignal(0, least);
	} else if constexpr (how == waitGivesUp) {
		const ginWordLook look = {signalOf(side.mine)};
		if (ginLookBriefly(look, least, 64))
			return ginSuccess;
		return giveUp(side, least);
	} else {
		uint64_t seen;
		do
			seen = ginSignalObserve(signalOf(side.mine));
		while (seen < least);
		return how == waitBesideCall && seen == ~0ull ? giveUp(side, least) : ginSuccess;
	}
}

// A strong signal, or a weak signal of a caller that has released.
template <Signal how, bool strong> __device__ ginResult_t sendBy(const PairSide &side)
{
	uint64_t *word =
		how == signalBare ? signalOf(side.theirs) : ginDirectSignals(side.dc, side.peer);
	ginOptions released;

	if (how == signalGin && strong)
		return Gin(side.dc, 0).signal(side.peer, GinSignalInc{0});
	released.given = ginScopeSystem;
	if (how == signalGin)
		return Gin(side.dc, 0)
			.signal(side.peer, GinWeakSignalInc{0}, GinThread{}, released);
	if (strong)
		ginSignalPublish(true, word, 1);
	else
		ginSignalPublishRelaxed(true, word, 1);
	if (how == signalAlive && ginPeerObserve(&side.dc.peers[side.peer]).state != ginPeerAlive)
		return ginErrorPeer;
	return ginSuccess;
}

template <Wait wait, Signal signal, bool strong> struct SignalTurns {
	const PairSide &side;

	__device__ ginResult_t send(uint32_t) const { return sendBy<signal, strong>(side); }
	__device__ ginResult_t receive(uint32_t i) const { return await<wait>(side, i); }
};

template <Wait wait, Signal signal, bool strong>
__global__ void signalPingPong(const __grid_constant__ PairSide side)
{
	SignalTurns<wait, signal, strong> turns = {side};
	pingPong(side, turns, TRIPS);
}

struct SignalRig : TwoGpus {
	template <Wait wait, Signal signal, bool strong = false> void measure(const char *what)
	{
		TwoGpus::measure(what, [](const PairSide &side) {
			signalPingPong<wait, signal, strong><<<1, 1>>>(side);
		});
	}
};

int main()
{
	SignalRig rig;

	rig.measure<waitBare, signalBare>("weak signal and wait by hand (limit)");
	rig.measure<waitBesideCall, signalBare>(
		"wait by hand, in code with a call that is never made");
	rig.measure<waitGivesUp, signalBare>("wait by hand that can time out");
	rig.measure<waitGin, signalBare>("wait by Gin::waitSignal");
	rig.measure<waitBare, signalNear>("signal by hand, the peer's address looked up");
	rig.measure<waitBare, signalAlive>(
		"signal by hand, address looked up, peer's state checked");
	rig.measure<waitBare, signalGin>("signal by Gin::signal");
	rig.measure<waitGin, signalGin>("signal and wait by Gin");
	rig.measure<waitBare, signalBare, true>("strong signal and wait by hand (limit)");
	rig.measure<waitGin, signalBare, true>("strong signal, wait by Gin::waitSignal");
	rig.measure<waitBare, signalGin, true>("strong signal by Gin::signal");
	rig.measure<waitGin, signalGin, true>("strong signal and wait by Gin");
	return 0;
}
