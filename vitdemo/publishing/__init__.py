"""Files for other programs: maps of an image, ONNX files, repositories of the Hugging Face Hub."""
