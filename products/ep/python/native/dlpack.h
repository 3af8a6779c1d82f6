/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dlpack.h - the part of DLPack's C interface that describes a tensor of a Python object
 *
 * Layouts and numbers are those of DLPack 1.3 (dmlc/dlpack, dlpack.h). A type of tensors has the
 * attribute __dlpack_c_exchange_api__, a capsule of the name EXCHANGE_CAPSULE with a pointer to a
 * struct dlExchange. Its functions want the interpreter's lock.
 */
#ifndef GIN_EP_DLPACK_H
#define GIN_EP_DLPACK_H

#include <stdint.h>

#define EXCHANGE_ATTRIBUTE "__dlpack_c_exchange_api__"
#define EXCHANGE_CAPSULE "dlpack_exchange_api"

enum { DL_MAJOR = 1 };
enum dlDevice { dlCpu = 1, dlCuda = 2 };
enum dlCode { dlInt = 0, dlUint = 1, dlFloat = 2, dlBfloat = 4, dlBool = 6, dlFloat8E4m3 = 10 };

struct dlType {
	uint8_t code, bits;
	uint16_t lanes;
};

/* Of a borrowed tensor: `shape` and `strides` live as long as the Python object. */
struct dlTensor {
	void *data;
	int32_t deviceType, deviceId;
	int32_t nDims;
	struct dlType type;
	int64_t *shape;
	int64_t *strides; /* in elements; NULL: contiguous */
	uint64_t byteOffset;
};

struct dlExchange {
	uint32_t major, minor;
	const struct dlExchange *older; /* of another major version, or NULL */
	void *allocate, *managedFromObject, *managedToObject;
	int (*describe)(void *object, struct dlTensor *out); /* or NULL */
	int (*currentStream)(int32_t deviceType, int32_t deviceId, void **stream);
};

#endif
