"""Runs for other programs: repositories of the Hugging Face Hub, and ONNX files."""
