// SPDX-License-Identifier: Apache-2.0
// Running the double's function: on a GPU, on a libcuda that is a double itself, or at once on host memory.
#pragma once

#include <string>
#include <vector>

#include "kernel.h"
#include "plan.h"

namespace doubles {

/// The work of one enqueue. Jobs live as long as the process: a CUDA graph may run one again later.
struct Job {
    std::vector<Step> steps;
    /// Additional time for which the network holds the GPU.
    u64 nanoseconds = 0;
    /// Whether the execution context that made the job is gone.
    bool is_dead = false;
};

/// Where an input's elements lie, and how large the function's view of it is.
void lay_out(Step& step, std::vector<int64_t> const& sizes);
/// Elements of a tensor.
int64_t elements(std::vector<int64_t> const& sizes);

void run_on_host(Job const& job);

/// Prepares the GPU; false with a message when that fails.
bool prepare_device(std::string& problem);
/// Puts a job into a stream; false with a message when that fails.
bool launch(Job const& job, cudaStream_t stream, std::string& problem);
/// Waits for a stream, where there is a libcuda; false in a stream that is being captured.
bool wait_for(cudaStream_t stream);
/// Whether this many bytes are accessible at an address, as far as that is known; otherwise a sentence.
bool can_hold(void const* address, int64_t bytes, std::string& problem);
/// Copies from device or host memory.
void copy_to_host(void* to, void const* from, size_t bytes);
/// Whether a libcuda is loaded in this process.
bool has_libcuda();

} // namespace doubles
