// SPDX-License-Identifier: BSD-3-Clause
// plain.c - a C program that uses gin.h alone
#include <gin.h>
#include <stdio.h>

int main(void)
{
	ginComm_t comm;
	int version, rank, nRanks;

	if (ginGetVersion(&version) != ginSuccess || version != GIN_VERSION) {
		printf("the header is of version %d, the library of %d\n", GIN_VERSION, version);
		return 1;
	}
	if (ginCommInit(NULL, &comm) != ginSuccess) {
		printf("%s\n", ginGetLastError());
		return 1;
	}
	if (ginCommRank(comm, &rank) != ginSuccess || ginCommSize(comm, &nRanks) != ginSuccess)
		return 1;
	printf("rank %d of %d\n", rank, nRanks);
	return ginCommDestroy(comm) != ginSuccess;
}
