/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider.h - a provider of libfabric without libgin: the limit for the network of the proxy
 *
 * One thread spins on an endpoint. Writes are delivery-complete, as libgin's are. A signal is the
 * remote data of a write, which is the fastest notification that the providers have.
 */
#ifndef GIN_BENCH_PROVIDER_H
#define GIN_BENCH_PROVIDER_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

class Provider
{
public:
	/* Facts that the other rank needs. */
	struct Address {
		char name[256];
		uint64_t memory, key;
	};

	static constexpr uint64_t depth = 64; /* writes in flight */

	Address open(const char *provider, const char *source, char *memory, size_t bytes)
	{
		struct fi_info *hints = hintsFor(provider);
		struct fi_cq_attr cqAttr = {};
		struct fi_av_attr avAttr = {};
		Address mine = {};
		size_t length = sizeof(mine.name);

		local = memory;
		cqAttr.format = FI_CQ_FORMAT_DATA;
		cqAttr.size = 1024;
		ok("fi_getinfo",
		   fi_getinfo(FI_VERSION(1, 15), source, "0", FI_SOURCE, hints, &info));
		fi_freeinfo(hints);
		ok("fi_fabric", fi_fabric(info->fabric_attr, &fabric, nullptr));
		ok("fi_domain", fi_domain(fabric, info, &domain, nullptr));
		ok("fi_cq_open", fi_cq_open(domain, &cqAttr, &cq, nullptr));
		ok("fi_av_open", fi_av_open(domain, &avAttr, &av, nullptr));
		ok("fi_endpoint", fi_endpoint(domain, info, &ep, nullptr));
		ok("fi_ep_bind", fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
		ok("fi_ep_bind", fi_ep_bind(ep, &av->fid, 0));
		ok("fi_enable", fi_enable(ep));
		ok("fi_mr_reg", fi_mr_reg(domain, memory, bytes, FI_WRITE | FI_REMOTE_WRITE, 0, 1,
					  0, &mr, nullptr));
		ok("fi_getname", fi_getname(&ep->fid, mine.name, &length));
		mine.memory = info->domain_attr->mr_mode & FI_MR_VIRT_ADDR
				      ? reinterpret_cast<uintptr_t>(memory)
				      : 0;
		mine.key = fi_mr_key(mr);
		return mine;
	}

	void connect(const Address &other)
	{
		remote = other;
		if (fi_av_insert(av, other.name, 1, &peer, 0, nullptr) != 1)
			die("fi_av_insert", -FI_EINVAL);
	}

	/* Begins a write, with a signal if `withSignal`; waits as long as there is no room. */
	void put(size_t bytes, bool withSignal)
	{
		struct iovec from = {local, bytes};
		struct fi_rma_iov to = {remote.memory, bytes, remote.key};
		struct fi_msg_rma message = {};
		void *none = nullptr;
		ssize_t error;

		while (begun - done >= depth)
			poll();
		message.msg_iov = &from;
		message.desc = &none;
		message.iov_count = message.rma_iov_count = 1;
		message.addr = peer;
		message.rma_iov = &to;
		message.context = &context[begun % depth];
		message.data = 1;
		uint64_t flags = withSignal ? FI_REMOTE_CQ_DATA : FI_DELIVERY_COMPLETE;
		while ((error = fi_writemsg(ep, &message, FI_COMPLETION | flags)) == -FI_EAGAIN)
			poll();
		ok("fi_writemsg", static_cast<int>(error));
		begun++;
	}

	void wait(uint64_t least)
	{
		while (signals < least)
			poll();
	}

	void drain()
	{
		while (done < begun)
			poll();
	}

	void close()
	{
		fi_close(&mr->fid);
		fi_close(&ep->fid);
		fi_close(&av->fid);
		fi_close(&cq->fid);
		fi_close(&domain->fid);
		fi_close(&fabric->fid);
		fi_freeinfo(info);
	}

	uint64_t signals = 0; /* that have come */

private:
	static void die(const char *call, int error)
	{
		fprintf(stderr, "ofi: %s: %s\n", call, fi_strerror(-error));
		exit(1);
	}

	static void ok(const char *call, int error)
	{
		if (error)
			die(call, error);
	}

	static struct fi_info *hintsFor(const char *provider)
	{
		struct fi_info *hints = fi_allocinfo();

		hints->ep_attr->type = FI_EP_RDM;
		hints->caps = FI_RMA | FI_WRITE | FI_REMOTE_WRITE;
		hints->mode = FI_CONTEXT | FI_CONTEXT2;
		hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
		hints->domain_attr->threading = FI_THREAD_SAFE;
		hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_WAW;
		hints->fabric_attr->prov_name = strdup(provider);
		return hints;
	}

	void poll()
	{
		struct fi_cq_data_entry entry[16];
		ssize_t count = fi_cq_read(cq, entry, 16);

		if (count < 0 && count != -FI_EAGAIN)
			die("fi_cq_read", static_cast<int>(count));
		for (ssize_t i = 0; i < count; i++)
			if (entry[i].flags & FI_REMOTE_CQ_DATA)
				signals++;
			else
				done++;
	}

	struct fi_info *info = nullptr;
	struct fid_fabric *fabric = nullptr;
	struct fid_domain *domain = nullptr;
	struct fid_cq *cq = nullptr;
	struct fid_av *av = nullptr;
	struct fid_ep *ep = nullptr;
	struct fid_mr *mr = nullptr;
	fi_addr_t peer = 0;
	Address remote = {};
	char *local = nullptr;
	uint64_t begun = 0, done = 0;
	struct fi_context2 context[depth];
};

#endif
