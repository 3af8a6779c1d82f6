/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi.cc - MPI and libgin in one program, in each order of begin and end
 *
 *	mpirun -n N mpi mpi|gin mpi|gin		which library begins, which ends first
 *
 * libgin by PMIx, which MPI uses too, and by MPI_Allgather; MPI's messages before, between and
 * during libgin's.
 */
#include "bootstrap.h"

#define OMPI_SKIP_MPICXX
#include <mpi.h>

#define MPI(call) check((call) == MPI_SUCCESS, #call)

/* Collective over MPI's ranks: around the ring and all together, every word checked. */
static void useMpi(MPI_Comm comm, int tag)
{
	enum { WORDS = 5000 };
	std::vector<int> out(WORDS), in(WORDS), sums(WORDS);
	int rank, nRanks;

	MPI(MPI_Comm_rank(comm, &rank));
	MPI(MPI_Comm_size(comm, &nRanks));
	int right = (rank + 1) % nRanks, left = (rank + nRanks - 1) % nRanks;
	for (int i = 0; i < WORDS; i++)
		out[static_cast<size_t>(i)] = tag * 7 + rank * 100000 + i;
	MPI(MPI_Sendrecv(out.data(), WORDS, MPI_INT, right, tag, in.data(), WORDS, MPI_INT, left,
			 tag, comm, MPI_STATUS_IGNORE));
	MPI(MPI_Allreduce(out.data(), sums.data(), WORDS, MPI_INT, MPI_SUM, comm));
	for (int i = 0; i < WORDS; i++) {
		EXPECT(in[static_cast<size_t>(i)] == tag * 7 + left * 100000 + i);
		EXPECT(sums[static_cast<size_t>(i)] ==
		       nRanks * (tag * 7 + i) + nRanks * (nRanks - 1) / 2 * 100000);
	}
}

static int allgather(void *arg, const void *in, void *out, size_t bytes)
{
	return MPI_Allgather(in, static_cast<int>(bytes), MPI_BYTE, out, static_cast<int>(bytes),
			     MPI_BYTE, *static_cast<MPI_Comm *>(arg));
}

static Rank openByMpi(MPI_Comm *comm)
{
	ginConfig_t config = GIN_CONFIG_INIT;
	Rank r;

	config.allgather = allgather;
	config.allgatherArg = comm;
	MPI(MPI_Comm_rank(*comm, &config.rank));
	MPI(MPI_Comm_size(*comm, &config.nRanks));
	rankOpen(r, &config);
	EXPECT(r.rank == config.rank && r.nRanks == config.nRanks);
	return r;
}

static Rank openByPmix(const char *name)
{
	ginConfig_t config = GIN_CONFIG_INIT;
	Rank r;

	config.name = name;
	rankOpen(r, &config);
	return r;
}

struct Use {
	Rank *rank;
	uint32_t tag;
};

static void *useOften(void *arg)
{
	Use *use = static_cast<Use *>(arg);

	for (uint32_t i = 0; i < 5; i++)
		exchange(*use->rank, use->tag + i);
	return nullptr;
}

/* MPI on this thread, each communicator of libgin on one of its own. */
static void useAllAtOnce(MPI_Comm comm, Rank &a, Rank &b)
{
	Use uses[] = {{&a, 100}, {&b, 200}};
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		EXPECT(!pthread_create(&threads[i], nullptr, useOften, &uses[i]));
	for (int i = 0; i < 20; i++)
		useMpi(comm, i);
	for (pthread_t thread : threads)
		pthread_join(thread, nullptr);
}

/* Half of MPI's ranks have a communicator of libgin of their own. */
static void useHalf(int rank)
{
	MPI_Comm half;

	MPI(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half));
	Rank part = openByMpi(&half);
	exchange(part, 300 + static_cast<uint32_t>(rank % 2));
	useMpi(half, 31);
	MPI(MPI_Comm_free(&half));
	exchange(part, 310);
	rankClose(part);
}

static void beginMpi()
{
	int given;

	MPI(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &given));
	EXPECT(given >= MPI_THREAD_FUNNELED);
	useMpi(MPI_COMM_WORLD, 1);
}

static void endGin(Rank &a, Rank &b)
{
	exchange(a, 8);
	rankClose(a);
	exchange(b, 9);
	rankClose(b);
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "mpi mpi|gin mpi|gin: which library begins, which ends first\n");
		return 1;
	}
	bool mpiBegins = !strcmp(argv[1], "mpi"), mpiEnds = !strcmp(argv[2], "mpi");
	if (mpiBegins)
		beginMpi();
	Rank byPmix = openByPmix("by PMIx");
	exchange(byPmix, 1);
	if (!mpiBegins)
		beginMpi();

	MPI_Comm world;
	MPI(MPI_Comm_dup(MPI_COMM_WORLD, &world));
	Rank byMpi = openByMpi(&world);
	EXPECT(byMpi.rank == byPmix.rank && byMpi.nRanks == byPmix.nRanks);
	useAllAtOnce(world, byPmix, byMpi);
	useHalf(byPmix.rank);
	useMpi(world, 5);
	MPI(MPI_Comm_free(&world));

	if (!mpiEnds)
		endGin(byPmix, byMpi);
	useMpi(MPI_COMM_WORLD, 6);
	MPI(MPI_Finalize());
	Rank late = openByPmix("after MPI");
	exchange(late, 7);
	if (mpiEnds)
		endGin(byPmix, byMpi);
	rankClose(late);
	return 0;
}
