/* SPDX-License-Identifier: BSD-3-Clause */
/* ptr.h - ncclSymPtr: a window and an offset in bytes, with the arithmetic of a pointer */
#ifndef GIN_COMPAT_NCCL_PTR_H
#define GIN_COMPAT_NCCL_PTR_H

#include "core.h"

template <class T> struct ncclSymPtr {
	using ElementType = T;
	ncclWindow_t window;
	size_t offset;

	GIN_FN constexpr ncclSymPtr(ncclWindow_t w = nullptr, size_t off = 0)
	    : window(w), offset(off)
	{
	}

	template <class U> GIN_FN operator ncclSymPtr<U>() const { return {window, offset}; }

	/* By elements. Offsets wrap, so that unsigned negative differences work. */
	template <class Int> GIN_FN ncclSymPtr &operator+=(Int elements)
	{
		offset += static_cast<size_t>(elements) * sizeof(T);
		return *this;
	}
	template <class Int> GIN_FN ncclSymPtr &operator-=(Int elements)
	{
		offset -= static_cast<size_t>(elements) * sizeof(T);
		return *this;
	}

	GIN_FN T *localPtr() const { return static_cast<T *>(ncclGetLocalPointer(window, offset)); }
	GIN_FN T *lsaPtr(int peer) const
	{
		return static_cast<T *>(ncclGetLsaPointer(window, offset, peer));
	}
	GIN_FN T *peerPtr(int peer) const
	{
		return static_cast<T *>(ncclGetPeerPointer(window, offset, peer));
	}
	GIN_FN T *peerPtr(ncclTeam_t team, int peer) const
	{
		return static_cast<T *>(ncclGetPeerPointer(window, offset, team, peer));
	}
	GIN_FN T *multimemPtr(ncclMultimemHandle_t) const { return nullptr; }
	GIN_FN T *lsaMultimemPtr(ncclDevComm const &) const { return nullptr; }
};

template <class T, class Int> GIN_FN ncclSymPtr<T> operator+(ncclSymPtr<T> p, Int elements)
{
	return p += elements;
}

template <class T, class Int> GIN_FN ncclSymPtr<T> operator-(ncclSymPtr<T> p, Int elements)
{
	return p -= elements;
}

template <class T> GIN_FN ptrdiff_t operator-(ncclSymPtr<T> a, ncclSymPtr<T> b)
{
	return static_cast<ptrdiff_t>(a.offset - b.offset) / static_cast<ptrdiff_t>(sizeof(T));
}

template <class T> GIN_FN bool operator==(ncclSymPtr<T> a, ncclSymPtr<T> b)
{
	return a.window == b.window && a.offset == b.offset;
}

template <class T> GIN_FN bool operator!=(ncclSymPtr<T> a, ncclSymPtr<T> b)
{
	return !(a == b);
}

GIN_FN ncclSymPtr<char> ncclGetResourceBuffer(ncclDevComm const &dc, ncclDevResourceHandle handle)
{
	return {dc.resourceWindow, ncclGetResourceBufferOffset(handle)};
}

#endif
