# SPDX-License-Identifier: BSD-3-Clause
"""Config: accepted for callers that make one. Chunk sizes mean nothing here, and nothing is reserved by them."""


class Config:
    def __init__(
        self,
        num_sms=20,
        num_max_nvl_chunked_send_tokens=6,
        num_max_nvl_chunked_recv_tokens=256,
        num_max_rdma_chunked_send_tokens=6,
        num_max_rdma_chunked_recv_tokens=256,
    ):
        self.num_sms = num_sms
        self.num_max_nvl_chunked_send_tokens = num_max_nvl_chunked_send_tokens
        self.num_max_nvl_chunked_recv_tokens = num_max_nvl_chunked_recv_tokens
        self.num_max_rdma_chunked_send_tokens = num_max_rdma_chunked_send_tokens
        self.num_max_rdma_chunked_recv_tokens = num_max_rdma_chunked_recv_tokens

    def get_nvl_buffer_size_hint(self, hidden_bytes, num_ranks):
        """0: memory is taken at need, whatever the Buffer was given."""
        return 0

    def get_rdma_buffer_size_hint(self, hidden_bytes, num_ranks):
        """0, as get_nvl_buffer_size_hint()."""
        return 0
