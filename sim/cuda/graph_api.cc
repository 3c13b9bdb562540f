// Stream capture and its graphs.
#include "sim/cuda/api.h"
#include "sim/cuda/capture.h"

namespace gpuman::sim::cuda {
namespace {

struct StreamCall {
  StreamCall(const char* function, CUstream handle) : call(function) {
    if (call) on = ResolveStream(call, handle);
    error = !call ? call.error() : !on ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
    if (error == CUDA_SUCCESS) capture = on.context->CaptureOf(on.stream);
  }
  CUstreamCaptureStatus Status() const {
    if (capture == nullptr) return CU_STREAM_CAPTURE_STATUS_NONE;
    return capture->invalidated() ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  }
  Call call;
  StreamReference on;
  std::shared_ptr<Capture> capture;
  CUresult error;
};

CUresult Instantiate(const char* function, CUgraphExec* out, CUgraph handle) {
  const Call call(function);
  if (!call) return call.error();
  const auto graph = call.driver().graphs.Find(handle);
  if (out == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto exec = std::make_shared<GraphExec>();
  const std::lock_guard lock(graph->mutex);
  exec->nodes = graph->nodes;
  *out = call.driver().graph_execs.Add(std::move(exec));
  return CUDA_SUCCESS;
}

CUresult CaptureInfo(const char* function, CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                     CUgraph* graph) {
  const StreamCall call(function, stream);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *status = call.Status();
  if (call.capture == nullptr) return CUDA_SUCCESS;
  if (id != nullptr) *id = call.capture->id();
  if (graph != nullptr) *graph = nullptr;  // the program gets it when the capture ends
  return CUDA_SUCCESS;
}

CUresult Begin(const StreamCall& call, const std::shared_ptr<Capture>& capture) {
  const CUresult begun = call.on.context->BeginCapture(call.on.stream, capture);
  if (begun == CUDA_SUCCESS) call.call.driver().AddCapture(capture);
  return begun;
}

}  // namespace

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  const StreamCall call(__func__, stream);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  return Begin(call, std::make_shared<Capture>(mode, call.call.driver().NextId()));
}
CUresult cuStreamBeginCapture(CUstream stream) {
  return cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

// The nodes run in the order of the calls, so the dependencies have run before them.
CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* dependencies,
                                     const CUgraphEdgeData*, size_t num_dependencies,
                                     CUstreamCaptureMode mode) {
  const StreamCall call(__func__, stream);
  if (call.error != CUDA_SUCCESS) return call.error;
  auto into = call.call.driver().graphs.Find(graph);
  if (mode > CU_STREAM_CAPTURE_MODE_RELAXED || into == nullptr ||
      (dependencies == nullptr && num_dependencies != 0))
    return CUDA_ERROR_INVALID_VALUE;
  return Begin(call, std::make_shared<Capture>(mode, call.call.driver().NextId(), std::move(into), graph));
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  const StreamCall call(__func__, stream);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *graph = nullptr;
  if (call.capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  call.on.context->EndCapture(call.capture);
  call.call.driver().RemoveCapture(call.capture);
  if (call.capture->invalidated()) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  *graph = call.capture->handle() != nullptr ? call.capture->handle()
                                             : call.call.driver().graphs.Add(call.capture->graph());
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* capture_status) {
  const StreamCall call(__func__, stream);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (capture_status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *capture_status = call.Status();
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* capture_status_out,
                                cuuint64_t* id_out) {
  return CaptureInfo(__func__, stream, capture_status_out, id_out, nullptr);
}
CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* capture_status_out,
                                   cuuint64_t* id_out, CUgraph* graph_out,
                                   const CUgraphNode** dependencies_out, size_t* num_dependencies_out) {
  if (dependencies_out != nullptr) *dependencies_out = nullptr;
  if (num_dependencies_out != nullptr) *num_dependencies_out = 0;
  return CaptureInfo(__func__, stream, capture_status_out, id_out, graph_out);
}
CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* capture_status_out,
                                   cuuint64_t* id_out, CUgraph* graph_out,
                                   const CUgraphNode** dependencies_out,
                                   const CUgraphEdgeData** edge_data_out, size_t* num_dependencies_out) {
  if (edge_data_out != nullptr) *edge_data_out = nullptr;
  return cuStreamGetCaptureInfo_v2(stream, capture_status_out, id_out, graph_out, dependencies_out,
                                   num_dependencies_out);
}

CUresult cuGraphCreate(CUgraph* graph, unsigned int flags) {
  const Call call(__func__, Need::kHealthy);
  if (!call) return call.error();
  if (graph == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *graph = call.driver().graphs.Add(std::make_shared<Graph>());
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) {
  const Call call(__func__, Need::kInit);
  if (!call) return call.error();
  const auto found = call.driver().graphs.Take(graph);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(found->mutex);
  for (const auto& node : found->nodes) call.driver().graph_nodes.Take(HandleOf<CUgraphNode>(node));
  return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* num_nodes) {
  const Call call(__func__, Need::kHealthy);
  if (!call) return call.error();
  const auto found = call.driver().graphs.Find(graph);
  if (found == nullptr || num_nodes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(found->mutex);
  for (std::size_t i = 0; nodes != nullptr && i < *num_nodes; ++i) {
    nodes[i] = i < found->nodes.size() ? call.driver().graph_nodes.Add(found->nodes[i]) : nullptr;
  }
  if (nodes == nullptr || *num_nodes > found->nodes.size()) *num_nodes = found->nodes.size();
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  const Call call(__func__, Need::kHealthy);
  if (!call) return call.error();
  const auto found = call.driver().graph_nodes.Find(node);
  if (found == nullptr || type == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *type = found->type;
  return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* graph_exec, CUgraph graph, unsigned long long) {
  return Instantiate(__func__, graph_exec, graph);
}
CUresult cuGraphInstantiate_v2(CUgraphExec* graph_exec, CUgraph graph, CUgraphNode* error_node,
                               char* log_buffer, size_t buffer_size) {
  if (error_node != nullptr) *error_node = nullptr;
  if (log_buffer != nullptr && buffer_size > 0) *log_buffer = '\0';
  return Instantiate(__func__, graph_exec, graph);
}
CUresult cuGraphInstantiate(CUgraphExec* graph_exec, CUgraph graph, CUgraphNode* error_node, char* log_buffer,
                            size_t buffer_size) {
  return cuGraphInstantiate_v2(graph_exec, graph, error_node, log_buffer, buffer_size);
}
CUresult cuGraphInstantiateWithParams(CUgraphExec* graph_exec, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* instantiate_params) {
  if (instantiate_params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult made = Instantiate(__func__, graph_exec, graph);
  instantiate_params->hErrNode_out = nullptr;
  instantiate_params->result_out =
      made == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
  return made;
}

CUresult cuGraphUpload(CUgraphExec graph, CUstream stream) {
  const StreamCall call(__func__, stream);
  if (call.error != CUDA_SUCCESS) return call.error;
  return call.call.driver().graph_execs.Find(graph) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  const StreamCall call(__func__, stream);
  if (call.error != CUDA_SUCCESS) return call.error;
  const auto exec = call.call.driver().graph_execs.Find(graph);
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return call.on.context->Enqueue(call.on.stream, CU_GRAPH_NODE_TYPE_GRAPH, [exec] {
    for (const auto& node : exec->nodes) node->run();
  });
}

CUresult cuGraphExecDestroy(CUgraphExec graph_exec) {
  const Call call(__func__, Need::kInit);
  if (!call) return call.error();
  return call.driver().graph_execs.Take(graph_exec) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // namespace gpuman::sim::cuda
