// SPDX-License-Identifier: BSD-3-Clause
// mpi - an MPI program makes a libgin communicator with the ranks of an MPI communicator
//
//   nvcc -ccbin mpicxx -std=c++17 -arch=native mpi.cu -o mpi -lgin
//   (or mpicxx -std=c++17 -x c++ mpi.cu ... for host threads)
//   mpirun -n 4 ./mpi
#include "shift.h"

#define OMPI_SKIP_MPICXX
#include <mpi.h>

// ginCommInit() calls this function, on the calling thread.
static int allgather(void *arg, const void *in, void *out, size_t bytes)
{
	return MPI_Allgather(in, static_cast<int>(bytes), MPI_BYTE, out, static_cast<int>(bytes),
			     MPI_BYTE, *static_cast<MPI_Comm *>(arg));
}

// Ranks keep their numbers. The MPI communicator is used only inside this function.
static Rank openRankOf(MPI_Comm comm)
{
	ginConfig_t config = GIN_CONFIG_INIT;
	config.allgather = allgather;
	config.allgatherArg = &comm;
	MPI_Comm_rank(comm, &config.rank);
	MPI_Comm_size(comm, &config.nRanks);
	return rankOpen(&config);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	Rank r = openRankOf(MPI_COMM_WORLD);
	size_t wrong = shiftOnce(r, 1 << 20);

	unsigned long mine = wrong, all = 0; // the program may use MPI and libgin at a time
	MPI_Allreduce(&mine, &all, 1, MPI_UNSIGNED_LONG, MPI_SUM, MPI_COMM_WORLD);
	int result = report(r, all);
	rankClose(r);
	MPI_Finalize();
	return result;
}
