#pragma once
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

namespace stickybit::gpu {

/// @throws std::runtime_error with what was tried and CUDA's own words
inline void check(cudaError_t status, char const* what) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

/// Waits for the kernels launched so far.
inline void finish(char const* what) {
  check(cudaGetLastError(), what);
  check(cudaDeviceSynchronize(), what);
}

/// Device memory for `size` objects of a trivially copyable type.
template <class T>
class device_array {
 public:
  explicit device_array(std::size_t size) : size_(size) {
    T* data = nullptr;
    check(cudaMalloc(&data, size * sizeof(T)), "cudaMalloc");
    data_.reset(data);
  }
  [[nodiscard]] T* data() const noexcept { return data_.get(); }

  void upload(std::span<T const> from) { check(cudaMemcpy(data(), from.data(), fitting(from.size()) * sizeof(T), cudaMemcpyHostToDevice), "copy to device"); }
  void download(std::span<T> to) const { check(cudaMemcpy(to.data(), data(), fitting(to.size()) * sizeof(T), cudaMemcpyDeviceToHost), "copy from device"); }

 private:
  struct freed {
    void operator()(T* p) const noexcept { cudaFree(p); }
  };
  [[nodiscard]] std::size_t fitting(std::size_t count) const {
    if (count > size_) throw std::out_of_range("device_array: " + std::to_string(count) + " objects, but room for " + std::to_string(size_));
    return count;
  }

  std::size_t size_;
  std::unique_ptr<T, freed> data_;
};

/// What a recorded file or a log says about where it ran.
struct device_description {
  std::string gpu, driver, cuda;
};

/// "580.159.04": the driver's own version, which CUDA does not tell but NVML, a part of the driver, does; else "unknown".
inline std::string driver_version() {
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (library == nullptr) return "unknown";
  const auto initialise = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
  const auto version = reinterpret_cast<int (*)(char*, unsigned)>(dlsym(library, "nvmlSystemGetDriverVersion"));
  char text[80] = "";
  const bool known = initialise != nullptr && version != nullptr && initialise() == 0 && version(text, sizeof text) == 0;
  return known ? text : "unknown";
}

inline device_description describe_device() {
  cudaDeviceProp properties{};
  int runtime = 0;
  check(cudaGetDeviceProperties(&properties, 0), "no CUDA device");
  check(cudaRuntimeGetVersion(&runtime), "CUDA runtime version");
  return {properties.name, driver_version(), std::to_string(runtime / 1000) + "." + std::to_string(runtime % 1000 / 10)};
}

}  // namespace stickybit::gpu
