// SPDX-License-Identifier: BSD-3-Clause main.cu - exchanges bytes with both neighbours, to the
// right from here and to the left from other.cu
#include "exchange.h"

struct InMain {
	Exchange e;

	GIN_FN void operator()() const
	{
#if defined(__CUDA_ARCH__) && !defined(__CUDACC_RDC__)
		ginResult_t status = exchangeHere(e);
#else
		ginResult_t status = exchangeInOther(e);
#endif
		if (ginThreadIndex() == 0)
			*e.result = status;
	}
};

static unsigned char pattern(int rank, size_t i)
{
	return static_cast<unsigned char>(i * 7 + static_cast<size_t>(rank) * 31 + 1);
}

static void checkResult(const Exchange &e)
{
	check(*e.result == ginSuccess, ginGetErrorString(*e.result));
}

int main()
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	Rank r = rankOpen();
	std::vector<unsigned char> bytes(2 * BYTES, 0);
	Window in = registerCopy(r, bytes);

	for (size_t i = 0; i < bytes.size(); i++)
		bytes[i] = pattern(r.rank, i);
	Window out = registerCopy(r, bytes);
	Exchange e = {{}, in.window, out.window, 1, 0, resultWord<ginResult_t>(r)};
	CHECK(ginDevCommCreate(r.comm, &want, &e.dc));
	launch(r, 1, r.device < 0 ? GIN_HOST_WARP : 64, InMain{e});
	checkResult(e);
	e.right = -1;
	e.place = 1;
	launchOther(r, e);
	checkResult(e);

	size_t wrong = 0;
	int left = (r.rank + r.nRanks - 1) % r.nRanks, right = (r.rank + 1) % r.nRanks;
	copyBytes(r, bytes.data(), in.ptr, bytes.size());
	for (size_t i = 0; i < bytes.size(); i++)
		wrong += bytes[i] != pattern(i < BYTES ? left : right, i);
	CHECK(ginDevCommDestroy(r.comm, &e.dc));
	freeWindow(r, in);
	freeWindow(r, out);
	rankClose(r);
	return report(r, wrong);
}
