"""Files of models, read and written: safetensors, GGUF, ONNX and torch's."""
