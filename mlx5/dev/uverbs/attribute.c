/* SPDX-License-Identifier: BSD-3-Clause */
#include "attribute.h"

#include <string.h>

static struct ib_uverbs_attr *find(const struct call *call, uint32_t id)
{
	for (uint32_t i = 0; i < call->header->num_attrs; i++)
		if (call->header->attrs[i].attr_id == id)
			return &call->header->attrs[i];
	return NULL;
}

bool attributeHas(const struct call *call, uint32_t id)
{
	return find(call, id);
}

/* Data that fits lies in the attribute itself. */
const void *attributeIn(const struct call *call, uint32_t id, size_t *bytes)
{
	struct ib_uverbs_attr *attribute = find(call, id);

	if (!attribute)
		return NULL;
	*bytes = attribute->len;
	return attribute->len <= sizeof(attribute->data) ? (const void *)&attribute->data
							 : (const void *)(uintptr_t)attribute->data;
}

void attributeCopy(const struct call *call, uint32_t id, void *to, size_t bytes)
{
	size_t has = 0;
	const void *from = attributeIn(call, id, &has);

	memset(to, 0, bytes);
	if (from)
		memcpy(to, from, has < bytes ? has : bytes);
}

uint64_t attributeNumber(const struct call *call, uint32_t id)
{
	struct ib_uverbs_attr *attribute = find(call, id);
	uint64_t value = 0;

	if (!attribute)
		return 0;
	if (!attribute->len) /* a handle or a descriptor */
		return attribute->data;
	attributeCopy(call, id, &value, sizeof(value));
	return value;
}

void attributeOut(const struct call *call, uint32_t id, const void *from, size_t bytes)
{
	struct ib_uverbs_attr *attribute = find(call, id);

	if (!attribute)
		return;
	void *to = (void *)(uintptr_t)attribute->data;
	memset(to, 0, attribute->len);
	memcpy(to, from, bytes < attribute->len ? bytes : attribute->len);
	attribute->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
}

void attributeOutHandle(const struct call *call, uint32_t id, uint32_t handle)
{
	struct ib_uverbs_attr *attribute = find(call, id);

	if (attribute)
		attribute->data = handle;
}

void *attributeRoom(const struct call *call, uint32_t id, size_t *bytes)
{
	struct ib_uverbs_attr *attribute = find(call, id);

	if (!attribute)
		return NULL;
	attribute->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
	*bytes = attribute->len;
	return (void *)(uintptr_t)attribute->data;
}
