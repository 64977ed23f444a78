"""ONNX Runtime's MultiHeadAttention, fused where it can be: a model of that
one node, on one thread."""

import protocol

HEADS, DIM = 8, 128


def make(words):
    import numpy as np
    import onnx
    import onnxruntime as ort

    if words[0] != "prefill":
        return "not measured: it transposes the cache in each call"
    if words[-1] != "f32":
        return "has no kernel for this dtype"
    rows = int(words[1])
    shape = [1, rows, HEADS * DIM]
    names = ["query", "key", "value"]
    helper = onnx.helper
    node = helper.make_node(
        "MultiHeadAttention", names, ["output"], domain="com.microsoft",
        num_heads=HEADS, unidirectional=int(words[2] == "causal"))

    def info(name):
        return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT,
                                             shape)

    graph = helper.make_graph([node], "attention", [info(n) for n in names],
                              [info("output")])
    model = helper.make_model(graph, ir_version=8, opset_imports=[
        helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options,
                                   providers=["CPUExecutionProvider"])
    random = np.random.default_rng(0)
    feeds = {name: random.random(shape, dtype=np.float32) * 2 - 1
             for name in names}
    return lambda: session.run(None, feeds)


protocol.serve(make)
