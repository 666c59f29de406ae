"""The node agent: a kubelet for the pods that serve. It runs processes where a kubelet runs containers."""
