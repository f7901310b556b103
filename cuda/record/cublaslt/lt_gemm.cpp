// Matrix products by cuBLASLt with a chosen algorithm, as a shared library that cuda/record/torch/record_gemm.py calls.
//   g++ -std=c++20 -O1 -shared -fPIC -I$CUDA/include lt_gemm.cpp -L$CUDA/lib64 -lcublasLt -o liblt_gemm.so
#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <vector>

namespace {

/// What one algorithm is. The Python side has the same fields in the same order.
struct algorithm_facts {
  std::int32_t id, tile, stages, split_k, reduction_scheme, custom_option, inner_shape, cluster_shape;
};

/// D[M×N] = alpha · A[M×K] · B[N×K]ᵀ + beta · C, all row-major; seen by the library, whose matrices are column-major, as Dᵀ = B · Aᵀ.
struct call {
  std::int32_t input_type, output_type, compute_type, scale_type;  // cudaDataType_t, cublasComputeType_t
  std::int64_t m, n, k;
  void const *a, *b, *c;
  void* d;
  float alpha, beta;
  void* workspace;
  std::int64_t workspace_bytes;
};

struct descriptors {
  cublasLtMatmulDesc_t operation{};
  cublasLtMatrixLayout_t a{}, b{}, d{};
  explicit descriptors(call const& of) {
    cublasLtMatmulDescCreate(&operation, cublasComputeType_t(of.compute_type), cudaDataType_t(of.scale_type));
    const cublasOperation_t transposed = CUBLAS_OP_T;
    cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed);
    cublasLtMatrixLayoutCreate(&a, cudaDataType_t(of.input_type), std::uint64_t(of.k), std::uint64_t(of.n), of.k);
    cublasLtMatrixLayoutCreate(&b, cudaDataType_t(of.input_type), std::uint64_t(of.k), std::uint64_t(of.m), of.k);
    cublasLtMatrixLayoutCreate(&d, cudaDataType_t(of.output_type), std::uint64_t(of.n), std::uint64_t(of.m), of.n);
  }
  descriptors(descriptors const&) = delete;
  descriptors& operator=(descriptors const&) = delete;
  ~descriptors() {
    cublasLtMatmulDescDestroy(operation);
    for (cublasLtMatrixLayout_t layout : {a, b, d}) cublasLtMatrixLayoutDestroy(layout);
  }
};

cublasLtHandle_t handle() {
  static cublasLtHandle_t made = [] {
    cublasLtHandle_t h{};
    cublasLtCreate(&h);
    return h;
  }();
  return made;
}

template <class T>
T attribute(cublasLtMatmulAlgo_t const& algo, cublasLtMatmulAlgoConfigAttributes_t which) {
  T value{};
  std::size_t written = 0;
  cublasLtMatmulAlgoConfigGetAttribute(&algo, which, &value, sizeof value, &written);
  return value;
}

algorithm_facts facts_of(cublasLtMatmulAlgo_t const& algo) {
  return {attribute<std::int32_t>(algo, CUBLASLT_ALGO_CONFIG_ID),
          attribute<std::int32_t>(algo, CUBLASLT_ALGO_CONFIG_TILE_ID),
          attribute<std::int32_t>(algo, CUBLASLT_ALGO_CONFIG_STAGES_ID),
          attribute<std::int32_t>(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
          attribute<std::int32_t>(algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME),
          attribute<std::int32_t>(algo, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION),
          attribute<std::uint16_t>(algo, CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID),
          attribute<std::uint16_t>(algo, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID)};
}

std::vector<std::int32_t> capabilities(cublasLtMatmulAlgo_t const& algo, cublasLtMatmulAlgoCapAttributes_t which) {
  std::array<std::int32_t, 1024> values{};
  std::size_t written = 0;
  if (cublasLtMatmulAlgoCapGetAttribute(&algo, which, values.data(), sizeof values, &written) != CUBLAS_STATUS_SUCCESS) return {};
  return {values.begin(), values.begin() + std::ptrdiff_t(written / sizeof(std::int32_t))};
}

void set(cublasLtMatmulAlgo_t& algo, cublasLtMatmulAlgoConfigAttributes_t which, std::int32_t value) {
  cublasLtMatmulAlgoConfigSetAttribute(&algo, which, &value, sizeof value);
}

int run(call const& of, descriptors const& by, cublasLtMatmulAlgo_t const& algo) {
  const float alpha = of.alpha, beta = of.beta;
  const std::uint16_t half_alpha = 0x3C00, half_beta = 0;  // 1 and 0 in FP16, for a scale type of FP16
  const bool half = of.scale_type == CUDA_R_16F;
  void const* first = half ? static_cast<void const*>(&half_alpha) : &alpha;
  void const* second = half ? static_cast<void const*>(&half_beta) : &beta;
  void const* c = of.c != nullptr ? of.c : of.d;
  return int(cublasLtMatmul(handle(), by.operation, first, of.b, by.a, of.a, by.b, second, c, by.d, of.d, by.d, &algo, of.workspace, std::size_t(of.workspace_bytes), nullptr));
}

}  // namespace

extern "C" {

std::int64_t lt_version() { return std::int64_t(cublasLtGetVersion()); }

/// The `index`-th answer of the heuristics. @returns 0, or a status; -1 where there are fewer answers
int lt_heuristic(call const* of, std::int32_t index, algorithm_facts* facts) {
  const descriptors by(*of);
  cublasLtMatmulPreference_t preference{};
  cublasLtMatmulPreferenceCreate(&preference);
  const std::uint64_t bytes = std::uint64_t(of->workspace_bytes);
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
  std::array<cublasLtMatmulHeuristicResult_t, 64> answers{};
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle(), by.operation, by.a, by.b, by.d, by.d, preference, int(answers.size()), answers.data(), &found);
  cublasLtMatmulPreferenceDestroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS) return int(status);
  if (index >= found) return -1;
  *facts = facts_of(answers[std::size_t(index)].algo);
  return run(*of, by, answers[std::size_t(index)].algo);
}

/// All algorithms' numbers. @returns how many
int lt_ids(call const* of, std::int32_t* ids, std::int32_t room) {
  int found = 0;
  const auto type = cudaDataType_t(of->input_type), out = cudaDataType_t(of->output_type);
  cublasLtMatmulAlgoGetIds(handle(), cublasComputeType_t(of->compute_type), cudaDataType_t(of->scale_type), type, type, out, out, room, ids, &found);
  return found;
}

/// Algorithm `id` with a split of K and a scheme of reduction, and the `variant`-th of its tiles and stages that can compute this.
int lt_chosen(call const* of, std::int32_t id, std::int32_t split_k, std::int32_t scheme, std::int32_t variant, algorithm_facts* facts) {
  const descriptors by(*of);
  const auto type = cudaDataType_t(of->input_type), out = cudaDataType_t(of->output_type);
  cublasLtMatmulAlgo_t algo{};
  const cublasStatus_t status = cublasLtMatmulAlgoInit(handle(), cublasComputeType_t(of->compute_type), cudaDataType_t(of->scale_type), type, type, out, out, id, &algo);
  if (status != CUBLAS_STATUS_SUCCESS) return int(status);
  std::vector<std::int32_t> tiles = capabilities(algo, CUBLASLT_ALGO_CAP_TILE_IDS), stages = capabilities(algo, CUBLASLT_ALGO_CAP_STAGES_IDS);
  if (tiles.empty()) tiles = {CUBLASLT_MATMUL_TILE_UNDEFINED};
  if (stages.empty()) stages = {CUBLASLT_MATMUL_STAGES_UNDEFINED};
  for (std::int32_t tile : tiles)
    for (std::int32_t stage : stages) {
      set(algo, CUBLASLT_ALGO_CONFIG_TILE_ID, tile);
      set(algo, CUBLASLT_ALGO_CONFIG_STAGES_ID, stage);
      set(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, split_k);
      set(algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, scheme);
      cublasLtMatmulHeuristicResult_t answer{};
      if (cublasLtMatmulAlgoCheck(handle(), by.operation, by.a, by.b, by.d, by.d, &algo, &answer) != CUBLAS_STATUS_SUCCESS) continue;
      if (std::int64_t(answer.workspaceSize) > of->workspace_bytes || variant-- > 0) continue;
      *facts = facts_of(algo);
      return run(*of, by, algo);
    }
  return -1;
}
}
